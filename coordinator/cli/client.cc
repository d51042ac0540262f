#include "coordinator/cli/client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "common/base/clock.h"
#include "common/base/utc.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/member_channel.h"
#include "common/trust/credentials.h"
#include "coordinator/cli/own_certificate.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kCallDeadline(20);
// Large plans travel, and a store that is busy with a full disk answers late.
constexpr std::chrono::seconds kSubmitDeadline(60);
constexpr std::chrono::milliseconds kConnectPatience(250);

void SetDeadline(grpc::ClientContext& context, std::chrono::seconds limit) {
  context.set_deadline(std::chrono::system_clock::now() + limit);
}

// A coordinator that ends cancels the calls that it has: to its clients that is a connection that
// broke, and as good a reason to ask again.
absl::Status EndedByCoordinator(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::CANCELLED) return FromGrpc(status);
  return absl::UnavailableError("the coordinator ended during the call");
}

template <typename Request, typename Response, typename Method>
absl::StatusOr<Response> Call(std::chrono::seconds limit, const Request& request, Method method) {
  grpc::ClientContext context;
  SetDeadline(context, limit);
  Response response;
  const grpc::Status status = method(&context, request, &response);
  if (!status.ok()) return EndedByCoordinator(status);
  return response;
}

// Reads a stream to its end, or until `on_message` has enough.
template <typename Message, typename Reader, typename OnMessage>
absl::Status Drain(Reader& reader, grpc::ClientContext& context, const Cancellation& cancellation,
                   const OnMessage& on_message) {
  Message message;
  bool enough = false;
  while (reader.Read(&message)) {
    if (enough) continue;
    if (!on_message(std::move(message))) {
      enough = true;
      context.TryCancel();
    }
    message.Clear();
  }
  const grpc::Status status = reader.Finish();
  if (enough) return absl::OkStatus();
  return cancellation.cancelled() ? FromGrpc(status) : EndedByCoordinator(status);
}

// A channel that could not connect goes on trying only while somebody waits for it: gRPC's own
// thread looks after it every 5 s. So a call that would fail at once waits a little first.
void LetItConnect(grpc::Channel& channel) {
  if (channel.GetState(true) != GRPC_CHANNEL_TRANSIENT_FAILURE) return;
  channel.WaitForConnected(std::chrono::system_clock::now() + kConnectPatience);
}

// A call of TrustService. A coordinator without a cluster does not have the service at all.
template <typename Request, typename Response, typename Function>
absl::StatusOr<Response> CallTrust(const Request& request, Function function) {
  absl::StatusOr<Response> response = Call<Request, Response>(kCallDeadline, request, function);
  if (!absl::IsUnimplemented(response.status())) return response;
  return absl::FailedPreconditionError(
      "this coordinator has no cluster: make one with `coordinator init` and start `serve` again");
}

// The certificate of this user. NOT_FOUND: never joined.
absl::StatusOr<Credentials> LoadUserCredentials() {
  const std::string folder = UserTrustDirectory();
  if (folder.empty()) return absl::NotFoundError("HOME is not set");
  return CredentialsDirectory(folder).Load();
}

absl::StatusOr<std::optional<ServerAddress>> FindJoinedServer() {
  const absl::StatusOr<Credentials> credentials = LoadUserCredentials();
  if (absl::IsNotFound(credentials.status())) return std::nullopt;
  if (!credentials.ok()) return credentials.status();
  if (credentials->coordinators.empty()) return std::nullopt;
  return std::optional(ServerAddress{credentials->coordinators[0], UserTrustDirectory()});
}

// The certificate for calls over the network, when it is good.
absl::StatusOr<Credentials> CredentialsForCalls(const std::string& target) {
  absl::StatusOr<Credentials> credentials = LoadUserCredentials();
  if (absl::IsNotFound(credentials.status())) {
    return absl::FailedPreconditionError(
        fmt::format("{} takes users of its cluster only, and you have no certificate: coordinator "
                    "join HOST:PORT TOKEN, with a token that an admin makes by `coordinator user "
                    "add NAME`",
                    target));
  }
  if (!credentials.ok()) return credentials;
  const Certificate& certificate = credentials->certificate;
  const WallTime now = SystemClock().WallNow();
  if (certificate.not_after() < now) {
    return absl::FailedPreconditionError(
        fmt::format("your certificate ended on {}: coordinator join HOST:PORT TOKEN, with a new "
                    "token of `coordinator user add {}`",
                    FormatUtc(certificate.not_after()), credentials->identity.name));
  }
  if (certificate.not_before() > now) {
    return absl::FailedPreconditionError(
        fmt::format("your certificate is good from {} on, and the clock of this machine says {}",
                    FormatUtc(certificate.not_before()), FormatUtc(now)));
  }
  return credentials;
}

bool IsSocketThere(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace

void Cancellation::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  if (current_ != nullptr) current_->TryCancel();
}

bool Cancellation::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

Cancellation::Scope::Scope(Cancellation& owner, grpc::ClientContext& context) : owner_(owner) {
  MutexLock lock(owner_.mutex_);
  owner_.current_ = &context;
  // Before the call begins: it then ends at once.
  if (owner_.cancelled_) context.TryCancel();
}

Cancellation::Scope::~Scope() {
  MutexLock lock(owner_.mutex_);
  owner_.current_ = nullptr;
}

Client::Client(std::shared_ptr<grpc::Channel> control, std::shared_ptr<grpc::Channel> logs)
    : control_channel_(std::move(control)),
      logs_channel_(std::move(logs)),
      jobs_(v1::JobService::NewStub(control_channel_)),
      logs_(v1::JobService::NewStub(logs_channel_)),
      nodes_(v1::NodeService::NewStub(control_channel_)),
      trust_(v1::TrustService::NewStub(control_channel_)),
      authority_(v1::AuthorityService::NewStub(control_channel_)) {}

bool Client::IsReachable() {
  const auto deadline = std::chrono::system_clock::now() + kCallDeadline;
  grpc_connectivity_state state = control_channel_->GetState(true);
  while (state == GRPC_CHANNEL_IDLE || state == GRPC_CHANNEL_CONNECTING) {
    if (!control_channel_->WaitForStateChange(state, deadline)) return false;
    state = control_channel_->GetState(true);
  }
  return state == GRPC_CHANNEL_READY;
}

absl::StatusOr<v1::Job> Client::SubmitJob(const v1::SubmitJobRequest& request,
                                          std::chrono::milliseconds patience) {
  const auto give_up = std::chrono::steady_clock::now() + patience;
  for (;;) {
    absl::StatusOr<v1::Job> job = Call<v1::SubmitJobRequest, v1::Job>(
        kSubmitDeadline, request, [this](auto* context, const auto& in, auto* out) {
          return jobs_->SubmitJob(context, in, out);
        });
    if (!absl::IsUnavailable(job.status()) || std::chrono::steady_clock::now() >= give_up) {
      return job;
    }
    control_channel_->WaitForConnected(std::chrono::system_clock::now() + kConnectPatience);
  }
}

absl::StatusOr<v1::Plan> Client::PlanJob(const v1::JobSpec& spec) {
  v1::PlanJobRequest request;
  *request.mutable_spec() = spec;
  return Call<v1::PlanJobRequest, v1::Plan>(kSubmitDeadline, request,
                                            [this](auto* context, const auto& in, auto* out) {
                                              return jobs_->PlanJob(context, in, out);
                                            });
}

absl::StatusOr<v1::Job> Client::GetJob(const std::string& job_id) {
  v1::GetJobRequest request;
  request.set_job_id(job_id);
  return Call<v1::GetJobRequest, v1::Job>(
      kCallDeadline, request,
      [this](auto* context, const auto& in, auto* out) { return jobs_->GetJob(context, in, out); });
}

absl::StatusOr<std::vector<v1::Job>> Client::ListJobs(size_t limit) {
  std::vector<v1::Job> jobs;
  v1::ListJobsRequest request;
  do {
    request.set_page_size(static_cast<int32_t>(limit == 0 ? 0 : limit - jobs.size()));
    absl::StatusOr<v1::ListJobsResponse> page = Call<v1::ListJobsRequest, v1::ListJobsResponse>(
        kCallDeadline, request, [this](auto* context, const auto& in, auto* out) {
          return jobs_->ListJobs(context, in, out);
        });
    if (!page.ok()) return page.status();
    for (v1::Job& job : *page->mutable_jobs()) jobs.push_back(std::move(job));
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty() && (limit == 0 || jobs.size() < limit));
  if (limit != 0 && jobs.size() > limit) jobs.resize(limit);
  return jobs;
}

absl::StatusOr<v1::Job> Client::CancelJob(const v1::CancelJobRequest& request) {
  return Call<v1::CancelJobRequest, v1::Job>(kCallDeadline, request,
                                             [this](auto* context, const auto& in, auto* out) {
                                               return jobs_->CancelJob(context, in, out);
                                             });
}

absl::StatusOr<v1::SignalJobResponse> Client::SignalJob(const v1::SignalJobRequest& request) {
  return Call<v1::SignalJobRequest, v1::SignalJobResponse>(
      kCallDeadline, request, [this](auto* context, const auto& in, auto* out) {
        return jobs_->SignalJob(context, in, out);
      });
}

absl::StatusOr<v1::ListNodesResponse> Client::ListNodes() {
  return Call<v1::ListNodesRequest, v1::ListNodesResponse>(
      kCallDeadline, v1::ListNodesRequest(), [this](auto* context, const auto& in, auto* out) {
        return nodes_->ListNodes(context, in, out);
      });
}

absl::Status Client::CheckNodes(const v1::CheckNodesRequest& request, std::chrono::seconds limit,
                                const std::function<void(v1::CheckNodesResponse)>& on_found) {
  grpc::ClientContext context;
  SetDeadline(context, limit);
  const std::unique_ptr<grpc::ClientReader<v1::CheckNodesResponse>> reader =
      nodes_->CheckNodes(&context, request);
  const Cancellation never;
  return Drain<v1::CheckNodesResponse>(*reader, context, never, [&](v1::CheckNodesResponse found) {
    on_found(std::move(found));
    return true;
  });
}

absl::StatusOr<v1::CreateTokenResponse> Client::CreateToken(const v1::CreateTokenRequest& request) {
  return CallTrust<v1::CreateTokenRequest, v1::CreateTokenResponse>(
      request, [this](auto* context, const auto& in, auto* out) {
        return trust_->CreateToken(context, in, out);
      });
}

absl::StatusOr<v1::ListTokensResponse> Client::ListTokens() {
  return CallTrust<v1::ListTokensRequest, v1::ListTokensResponse>(
      v1::ListTokensRequest(), [this](auto* context, const auto& in, auto* out) {
        return trust_->ListTokens(context, in, out);
      });
}

absl::Status Client::DeleteToken(const std::string& token_id) {
  v1::DeleteTokenRequest request;
  request.set_token_id(token_id);
  return CallTrust<v1::DeleteTokenRequest, v1::DeleteTokenResponse>(
             request, [this](auto* context, const auto& in,
                             auto* out) { return trust_->DeleteToken(context, in, out); })
      .status();
}

absl::StatusOr<v1::ListMembersResponse> Client::ListMembers() {
  return CallTrust<v1::ListMembersRequest, v1::ListMembersResponse>(
      v1::ListMembersRequest(), [this](auto* context, const auto& in, auto* out) {
        return trust_->ListMembers(context, in, out);
      });
}

absl::StatusOr<v1::RevokeMemberResponse> Client::RevokeMember(
    const v1::RevokeMemberRequest& request) {
  return CallTrust<v1::RevokeMemberRequest, v1::RevokeMemberResponse>(
      request, [this](auto* context, const auto& in, auto* out) {
        return trust_->RevokeMember(context, in, out);
      });
}

absl::StatusOr<v1::Authority> Client::GetAuthority() {
  return CallTrust<v1::GetAuthorityRequest, v1::Authority>(
      v1::GetAuthorityRequest(), [this](auto* context, const auto& in, auto* out) {
        return authority_->GetAuthority(context, in, out);
      });
}

absl::StatusOr<v1::Authority> Client::RotateAuthority() {
  return CallTrust<v1::RotateAuthorityRequest, v1::Authority>(
      v1::RotateAuthorityRequest(), [this](auto* context, const auto& in, auto* out) {
        return authority_->RotateAuthority(context, in, out);
      });
}

absl::Status Client::WatchJob(const std::string& job_id, Cancellation& cancellation,
                              const OnJob& on_job) {
  v1::WatchJobRequest request;
  request.set_job_id(job_id);
  grpc::ClientContext context;
  if (broken_) LetItConnect(*control_channel_);
  const Cancellation::Scope scope(cancellation, context);
  const auto reader = jobs_->WatchJob(&context, request);
  absl::Status status = Drain<v1::WatchJobResponse>(
      *reader, context, cancellation, [&on_job](v1::WatchJobResponse response) {
        return on_job(std::move(*response.mutable_job()));
      });
  if (absl::IsUnavailable(status)) broken_ = true;
  return status;
}

absl::Status Client::ReadLogs(const v1::ReadLogsRequest& request, Cancellation& cancellation,
                              const OnLogs& on_logs) {
  grpc::ClientContext context;
  if (broken_) LetItConnect(*logs_channel_);
  const Cancellation::Scope scope(cancellation, context);
  const auto reader = logs_->ReadLogs(&context, request);
  absl::Status status = Drain<v1::ReadLogsResponse>(*reader, context, cancellation, on_logs);
  if (absl::IsUnavailable(status)) broken_ = true;
  return status;
}

std::string UserTrustDirectory() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config == '/') return fmt::format("{}/muster/trust", config);
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return "";
  return fmt::format("{}/.config/muster/trust", home);
}

absl::StatusOr<std::optional<ServerAddress>> FindServer(const std::string& flag) {
  ServerAddress address;
  const char* variable = std::getenv("MUSTER_SERVER");
  if (!flag.empty()) {
    address = {flag, "--server"};
  } else if (variable != nullptr && *variable != '\0') {
    address = {variable, "MUSTER_SERVER"};
  } else {
    std::vector<std::string> sockets;
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime != nullptr && *runtime == '/') {
      sockets.push_back(fmt::format("{}/muster/coordinator.sock", runtime));
    }
    sockets.push_back("/run/muster/coordinator.sock");
    std::optional<ServerAddress> closed;
    for (const std::string& path : sockets) {
      if (!IsSocketThere(path)) continue;
      ServerAddress found{"unix:" + path, "default socket"};
      if (::access(path.c_str(), W_OK) == 0) return std::optional(std::move(found));
      // For others only. Who has joined the cluster goes through the network, as everybody else.
      if (!closed) closed = std::move(found);
    }
    absl::StatusOr<std::optional<ServerAddress>> joined = FindJoinedServer();
    if (joined.ok() && !joined->has_value() && closed) return closed;
    return joined;
  }
  if (address.target.starts_with("/")) address.target = "unix:" + address.target;
  if (!CheckTarget(address.target).ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected HOST:PORT or unix:/path/to/socket, got '{}'", address.origin,
                    address.target));
  }
  return std::optional(std::move(address));
}

std::string NoServerText(bool local_possible) {
  std::string text =
      "no coordinator: neither --server nor MUSTER_SERVER is given, there is no socket at "
      "$XDG_RUNTIME_DIR/muster/coordinator.sock or /run/muster/coordinator.sock, and you have not "
      "joined a cluster (coordinator join)";
  if (local_possible) {
    text +=
        "\nto run on this machine alone, with a coordinator and agents just for this job, add "
        "--local (or set MUSTER_LOCAL=1)";
  }
  return text;
}

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& target) {
  const auto make = [&](ChannelUse use) -> absl::StatusOr<std::shared_ptr<grpc::Channel>> {
    if (IsUnixTarget(target)) return MakeChannel(target, use);
    const absl::StatusOr<Credentials> credentials = CredentialsForCalls(target);
    if (!credentials.ok()) return credentials.status();
    if (use == ChannelUse::kControl) {
      HaveCertificateLookedAfter(UserTrustDirectory(), *credentials, target,
                                 SystemClock().WallNow());
    }
    return MakeMemberChannel(*credentials, target, use);
  };
  absl::StatusOr<std::shared_ptr<grpc::Channel>> control = make(ChannelUse::kControl);
  if (!control.ok()) return control.status();
  absl::StatusOr<std::shared_ptr<grpc::Channel>> logs = make(ChannelUse::kLogs);
  if (!logs.ok()) return logs.status();
  return std::make_unique<Client>(*std::move(control), *std::move(logs));
}

}  // namespace muster
