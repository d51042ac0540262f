#include "coordinator/core/job_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/signal_names.h"

namespace muster {

std::string DescribeStatus(const v1::ExitStatus& status) {
  const char* core = status.core_dumped() ? " (core dumped)" : "";
  switch (status.outcome_case()) {
    case v1::ExitStatus::kExitCode:
      return fmt::format("exited with code {}", status.exit_code());
    case v1::ExitStatus::kSignal:
      return fmt::format("was killed by {}{}{}", SignalName(status.signal()),
                         status.oom_killed() ? " (out of memory)" : "", core);
    case v1::ExitStatus::kExecFailure: {
      const v1::ExecFailure& failure = status.exec_failure();
      return fmt::format(
          "could not be executed: {}",
          failure.message().empty()
              ? fmt::format("{} failed, errno {}", failure.step(), failure.error_number())
              : OneLine(failure.message()));
    }
    case v1::ExitStatus::OUTCOME_NOT_SET:
      break;
  }
  return "ended in a way that this version does not know";
}

std::string DescribeRank(const AttemptRecord& attempt, uint32_t rank) {
  const RankProgress& progress = attempt.ranks[rank];
  const std::string& host = attempt.nodes[progress.node_index].host;
  if (progress.pid == 0) return fmt::format("rank {} on {}", rank, host);
  return fmt::format("rank {} on {} (pid {})", rank, host, progress.pid);
}

std::string DescribeDuration(Duration duration) {
  using std::chrono::milliseconds;
  const int64_t ms = std::chrono::duration_cast<milliseconds>(duration).count();
  if (ms % 1000 != 0) return fmt::format("{:g}s", static_cast<double>(ms) / 1000.0);
  int64_t rest = ms / 1000;
  if (rest == 0) return "0s";
  std::string text;
  for (const auto& [seconds, unit] : {std::pair{int64_t{3600}, 'h'}, {60, 'm'}, {1, 's'}}) {
    if (rest >= seconds) fmt::format_to(std::back_inserter(text), "{}{}", rest / seconds, unit);
    rest %= seconds;
  }
  return text;
}

std::string JoinNames(const std::vector<std::string>& names, size_t limit) {
  const size_t shown = std::min(names.size(), limit);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (shown < names.size()) {
    fmt::format_to(std::back_inserter(text), " and {} more", names.size() - shown);
  }
  return text;
}

std::string OneLine(std::string_view text) {
  constexpr size_t kLimitBytes = 4000;
  std::string line(text.substr(0, kLimitBytes));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  std::replace(line.begin(), line.end(), '\n', ';');
  std::replace(line.begin(), line.end(), '\r', ' ');
  return line;
}

}  // namespace muster
