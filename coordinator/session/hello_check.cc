#include "coordinator/session/hello_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/version.h"

namespace muster {
namespace {

void CheckId(std::string_view name, std::string_view value, std::vector<std::string>& problems) {
  if (value.empty()) {
    problems.push_back(fmt::format("{} is missing", name));
  } else if (value.size() > kMaxIdBytes) {
    problems.push_back(fmt::format("{} is longer than {} bytes", name, kMaxIdBytes));
  } else if (std::any_of(value.begin(), value.end(),
                         [](unsigned char c) { return c < 0x21 || c == 0x7f; })) {
    problems.push_back(fmt::format("{} has blanks or control characters", name));
  }
}

}  // namespace

absl::Status CheckHello(const v1::Hello& hello, std::string_view cluster_id,
                        const std::optional<NodeId>& authenticated) {
  std::vector<std::string> problems;
  CheckId("node_id", hello.node_id(), problems);
  CheckId("agent_instance_id", hello.agent_instance_id(), problems);
  CheckId("boot_id", hello.boot_id(), problems);
  CheckId("journal_id", hello.journal_id(), problems);
  if (!problems.empty()) {
    return absl::InvalidArgumentError(fmt::format("hello: {}", fmt::join(problems, "; ")));
  }
  if (authenticated.has_value() && authenticated->value() != hello.node_id()) {
    return absl::PermissionDeniedError(
        fmt::format("the credentials are those of node {}, not of {}", authenticated->value(),
                    hello.node_id()));
  }
  if (hello.version().major() != kProtocolMajor) {
    return absl::FailedPreconditionError(fmt::format(
        "the coordinator speaks protocol {}.{}, the agent of {} speaks {}.{}: upgrade {}",
        kProtocolMajor, kProtocolMinor, hello.node_id(), hello.version().major(),
        hello.version().minor(),
        hello.version().major() < kProtocolMajor ? "the agent" : "the coordinator"));
  }
  if (hello.cluster_id() != cluster_id) {
    return absl::FailedPreconditionError(
        fmt::format("the agent of {} joined cluster \"{}\", this is cluster \"{}\"",
                    hello.node_id(), hello.cluster_id(), cluster_id));
  }
  return absl::OkStatus();
}

}  // namespace muster
