// What the cloud says of this instance, asked of its metadata service (IMDSv2: a token first, then
// one value after the other). Asked on a thread of its own, within a limit for everything together,
// and only when somebody wants to know; an answer holds for the life of the agent, as an instance
// never moves. Lives on the loop thread.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/io/worker_thread.h"

namespace muster {

struct Ec2Instance {
  // `us-east-1a`.
  std::string availability_zone;
  // Empty: it is in none.
  std::string placement_group;
  // `dl1.24xlarge`.
  std::string type;
};

// Where the variables that AWS's own tools heed put the service: AWS_EC2_METADATA_SERVICE_ENDPOINT,
// nowhere with AWS_EC2_METADATA_DISABLED=true, else at `usual`. Empty: nowhere.
std::string Ec2EndpointOf(const std::vector<std::string>& environ, const std::string& usual);

// Where it is on every instance.
inline constexpr char kUsualEc2Endpoint[] = "http://169.254.169.254";

// Asks, blocking, until `deadline` at most. Any thread.
absl::StatusOr<Ec2Instance> AskEc2(const std::string& endpoint,
                                   std::chrono::steady_clock::time_point deadline);

class Ec2Metadata {
 public:
  using Done = std::function<void(const absl::StatusOr<Ec2Instance>&)>;

  // `endpoint`: not empty. `executor` outlives it.
  Ec2Metadata(Executor& executor, std::string endpoint,
              std::chrono::milliseconds limit = std::chrono::seconds(1))
      : executor_(executor), endpoint_(std::move(endpoint)), limit_(limit) {}
  // Waits for a question that is under way; nobody is answered.
  ~Ec2Metadata() = default;
  Ec2Metadata(const Ec2Metadata&) = delete;
  Ec2Metadata& operator=(const Ec2Metadata&) = delete;

  // `done` is called later, once, within the limit. A service that has just failed is not asked
  // again for a minute: its failure is told again.
  void Ask(Done done);

 private:
  void OnAnswer(absl::StatusOr<Ec2Instance> answer);

  Executor& executor_;
  const std::string endpoint_;
  const std::chrono::milliseconds limit_;
  std::optional<absl::StatusOr<Ec2Instance>> known_;
  // When `known_` is asked for again; nothing: never.
  std::optional<TimePoint> stale_at_;
  std::vector<Done> waiting_;
  // Posted tasks look here whether this object still lives.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  // Made when needed; last, so that its task is through before anything of this goes.
  std::unique_ptr<WorkerThread> worker_;
};

}  // namespace muster
