// Sets up the log of a process: one event per line, key=value, written with spdlog's free
// functions:
//
//   spdlog::info("rank exited job={} attempt={} rank={} signal={}", ...);
//
// A line: `2026-03-01T12:00:00.123456Z info  rank exited job=j42 attempt=1 rank=7 signal=SIGKILL`.
// Values that come from people or peers go through `Quoted`. Never log environment values or
// secrets.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <string_view>

namespace muster {

// The levels, for messages.
inline constexpr std::string_view kLogLevels = "trace, debug, info, warn, error or off";
bool IsLogLevel(const std::string& text);

struct LogOptions {
  // File to append to, made with mode 0600 when missing; empty: stderr.
  std::string file;
  // trace, debug, info, warn, error or off; used when MUSTER_LOG does not give one.
  std::string level = "info";
};

// Call in main(), before other threads exist. A level in MUSTER_LOG wins over `options.level`.
// When the file cannot be opened or the level is not known, logging goes on with stderr and `info`,
// and the error is returned. Later write errors (a full disk) lose the line and never stop the
// program.
absl::Status SetUpLog(const LogOptions& options);

// `value` as it is when it has only printable characters other than blanks, quotes, = and
// backslash; else in double quotes with \n, \", \\ and \xHH escapes, so that a line stays a line.
std::string LogQuoted(std::string_view value);

}  // namespace muster
