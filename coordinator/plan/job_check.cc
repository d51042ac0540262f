#include "coordinator/plan/job_check.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "common/config/text.h"

namespace muster {
namespace {

constexpr uint32_t kMaxPort = 65535;

}  // namespace

absl::Status Faults::ToStatus() const {
  std::vector<std::string> all = job;
  all.insert(all.end(), nodes.begin(), nodes.end());
  const std::string text = fmt::format("{}", fmt::join(all, "\n"));
  return job.empty() ? absl::FailedPreconditionError(text) : absl::InvalidArgumentError(text);
}

std::string Located(const v1::HostEntry& host) {
  return host.source().empty() ? host.host() : fmt::format("{}: {}", host.source(), host.host());
}

void CheckJob(const v1::JobSpec& spec, size_t nodes, Faults& faults) {
  const auto fault = [&](std::string text) { faults.job.push_back(std::move(text)); };
  if (spec.hosts().empty()) fault("the job has no hosts");
  if (nodes != 0 && nodes != static_cast<size_t>(spec.hosts_size())) {
    fault(fmt::format("{} nodes were given for {} hosts", nodes, spec.hosts_size()));
  }
  absl::flat_hash_map<std::string_view, const v1::HostEntry*> seen;
  for (const v1::HostEntry& host : spec.hosts()) {
    if (host.host().empty()) fault("a host has no name");
    const auto [first, is_new] = seen.try_emplace(host.host(), &host);
    if (!is_new) {
      fault(first->second->source().empty() ? fmt::format("{} is listed twice", Located(host))
                                            : fmt::format("{} is listed already at {}",
                                                          Located(host), first->second->source()));
    }
  }
  switch (spec.program().kind()) {
    case v1::Program::SCRIPT:
    case v1::Program::MODULE:
    case v1::Program::COMMAND:
      if (spec.program().target().empty()) fault("the job has no script, module or command");
      break;
    default:
      fault("the job says neither script nor module nor command");
  }
  const auto check_directory = [&](std::string_view directory, std::string_view host) {
    if (directory.empty() || directory.front() != '/') {
      fault(fmt::format("the working directory {}must be an absolute path, got {}", host,
                        Quoted(directory)));
    }
    if (directory.find('\0') != std::string_view::npos) {
      fault(fmt::format("the working directory {}has a NUL byte", host));
    }
  };
  check_directory(spec.working_directory(), "");
  for (const v1::NodeOverride& node : spec.node_overrides()) {
    if (!node.working_directory().empty()) {
      check_directory(node.working_directory(), fmt::format("of {} ", node.host()));
    }
  }
  if (spec.master_port() > kMaxPort) {
    fault(fmt::format("master_port must be at most {}, got {}", kMaxPort, spec.master_port()));
  }
}

}  // namespace muster
