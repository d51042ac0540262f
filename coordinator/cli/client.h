// The connection to a coordinator: finds it and makes the calls of JobService, NodeService,
// TrustService and AuthorityService.
// Thread-safe. Unary calls have deadlines; streams end by Cancellation.
#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/cli/job_source.h"
#include "muster/v1/authority.grpc.pb.h"
#include "muster/v1/job.grpc.pb.h"
#include "muster/v1/node.grpc.pb.h"
#include "muster/v1/trust.grpc.pb.h"

namespace muster {

class Client final : public JobSource {
 public:
  // `logs` carries ReadLogs, `control` everything else.
  Client(std::shared_ptr<grpc::Channel> control, std::shared_ptr<grpc::Channel> logs);

  // Tries to connect. False when there is nobody.
  bool IsReachable();
  // Repeats the call, which its request id makes harmless, while the connection breaks or cannot be
  // made again, for up to `patience`.
  absl::StatusOr<v1::Job> SubmitJob(const v1::SubmitJobRequest& request,
                                    std::chrono::milliseconds patience = {});
  absl::StatusOr<v1::Plan> PlanJob(const v1::JobSpec& spec);
  absl::StatusOr<v1::Job> GetJob(const std::string& job_id) override;
  // The newest `limit` jobs, 0: all.
  absl::StatusOr<std::vector<v1::Job>> ListJobs(size_t limit);
  absl::StatusOr<v1::Job> CancelJob(const v1::CancelJobRequest& request);
  absl::StatusOr<v1::SignalJobResponse> SignalJob(const v1::SignalJobRequest& request);
  absl::StatusOr<v1::ListNodesResponse> ListNodes();
  // Calls `on_found` for everything that is found, on the calling thread, for at most `limit`.
  absl::Status CheckNodes(const v1::CheckNodesRequest& request, std::chrono::seconds limit,
                          const std::function<void(v1::CheckNodesResponse)>& on_found);
  absl::StatusOr<v1::CreateTokenResponse> CreateToken(const v1::CreateTokenRequest& request);
  absl::StatusOr<v1::ListTokensResponse> ListTokens();
  absl::Status DeleteToken(const std::string& token_id);
  absl::StatusOr<v1::ListMembersResponse> ListMembers();
  absl::StatusOr<v1::RevokeMemberResponse> RevokeMember(const v1::RevokeMemberRequest& request);
  absl::StatusOr<v1::Authority> GetAuthority();
  absl::StatusOr<v1::Authority> RotateAuthority();

  absl::Status WatchJob(const std::string& job_id, Cancellation& cancellation,
                        const OnJob& on_job) override;
  absl::Status ReadLogs(const v1::ReadLogsRequest& request, Cancellation& cancellation,
                        const OnLogs& on_logs) override;

 private:
  const std::shared_ptr<grpc::Channel> control_channel_;
  const std::shared_ptr<grpc::Channel> logs_channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::JobService::Stub> logs_;
  std::unique_ptr<v1::NodeService::Stub> nodes_;
  std::unique_ptr<v1::TrustService::Stub> trust_;
  std::unique_ptr<v1::AuthorityService::Stub> authority_;
  // A call failed for want of a connection. Streams run on threads of their own.
  std::atomic<bool> broken_ = false;
};

// Address of the coordinator that a command goes to.
struct ServerAddress {
  // unix:/path or HOST:PORT.
  std::string target;
  // How it was found: "--server", "MUSTER_SERVER", "default socket", or the folder of
  // UserTrustDirectory.
  std::string origin;
};

// Where this user's certificate of a cluster is: $XDG_CONFIG_HOME/muster/trust, else
// ~/.config/muster/trust. Empty when neither variable is set.
std::string UserTrustDirectory();

// `flag` (--server) when not empty, else MUSTER_SERVER, else the first default socket that exists,
// else the coordinator that this user has joined. Nothing when there is none of these.
// INVALID_ARGUMENT for what is no address.
absl::StatusOr<std::optional<ServerAddress>> FindServer(const std::string& flag);

// What to say when there is no coordinator; `local_possible` names --local.
std::string NoServerText(bool local_possible);

// HOST:PORT takes the certificate of UserTrustDirectory; FAILED_PRECONDITION, with what to do,
// without one that is good.
absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& target);

}  // namespace muster
