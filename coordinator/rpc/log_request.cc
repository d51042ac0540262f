#include "coordinator/rpc/log_request.h"

#include <fmt/format.h>

#include "common/base/annotate.h"

namespace muster {

absl::StatusOr<std::optional<LogFilterOptions>> FilterOf(const v1::ReadLogsRequest& request) {
  LogFilterOptions options;
  if (!request.streams().empty()) options.want_stdout = options.want_stderr = false;
  for (const int stream : request.streams()) {
    if (stream == v1::ReadLogsRequest::STDOUT) {
      options.want_stdout = true;
    } else if (stream == v1::ReadLogsRequest::STDERR) {
      options.want_stderr = true;
    } else {
      return absl::InvalidArgumentError(
          fmt::format("streams: expected STDOUT or STDERR, got {}", stream));
    }
  }
  if (request.since_ns() != 0) options.since_ns = request.since_ns();
  options.whole_lines =
      request.whole_lines() || !request.grep().empty() || request.has_tail_lines();
  if (!request.grep().empty()) {
    absl::StatusOr<LinePattern> pattern = LinePattern::Make(request.grep());
    if (!pattern.ok()) {
      return absl::InvalidArgumentError(fmt::format("grep: {}", MessageOf(pattern.status())));
    }
    options.pattern = *std::move(pattern);
  }
  const bool filters = !request.streams().empty() || request.since_ns() != 0 || options.whole_lines;
  return filters ? std::optional(std::move(options)) : std::nullopt;
}

KnownPositions KnownOf(const v1::ReadLogsRequest& request) {
  KnownPositions known;
  for (const v1::LogPosition& position : request.from()) {
    known[{position.attempt(), position.rank()}] = position.offset();
  }
  return known;
}

}  // namespace muster
