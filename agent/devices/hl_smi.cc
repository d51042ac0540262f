#include "agent/devices/hl_smi.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <filesystem>
#include <system_error>

#include "agent/devices/run_program.h"
#include "common/base/utf8.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

const std::vector<std::string>& AllFields() {
  static const std::vector<std::string> fields = {"index",
                                                  "module_id",
                                                  "bus_id",
                                                  "name",
                                                  "driver_version",
                                                  "serial",
                                                  "memory.used",
                                                  "memory.total",
                                                  "utilization.aip",
                                                  "temperature.aip",
                                                  "power.draw",
                                                  "ecc.errors.corrected.volatile.total",
                                                  "ecc.errors.uncorrected.volatile.total"};
  return fields;
}

const std::vector<std::string>& CommonFields() {
  static const std::vector<std::string> fields = {"index", "module_id", "bus_id"};
  return fields;
}

absl::StatusOr<HlSmiText> Ask(const HlSmiCall& call, const std::vector<std::string>& environ,
                              const std::vector<std::string>& fields, milliseconds limit) {
  const ProgramCall program = {
      .program = call.program,
      .argv = {"hl-smi", "-Q", fmt::format("{}", fmt::join(fields, ",")), "-f", "csv,noheader"},
      .environ = environ,
      .limit = limit};
  const absl::StatusOr<std::string> text = RunProgram(program);
  if (!text.ok()) return text.status();
  return ParseHlSmi(ValidUtf8(*text), fields);
}

}  // namespace

std::vector<std::string> VendorEnvironment(const std::vector<std::string>& environ,
                                           const std::string& logs) {
  std::vector<std::string> out;
  for (const std::string& pair : environ) {
    if (pair.starts_with("ENABLE_CONSOLE=") || pair.starts_with("HABANA_LOGS=")) continue;
    out.push_back(pair);
  }
  out.push_back("HABANA_LOGS=" + logs);
  return out;
}

LogFolder::LogFolder() {
  const char* temporary = ::getenv("TMPDIR");
  path_ = fmt::format("{}/muster-habana-XXXXXX",
                      temporary != nullptr && *temporary == '/' ? temporary : "/tmp");
  made_ = ::mkdtemp(path_.data()) != nullptr;
  if (!made_) path_ = "/tmp";
}

LogFolder::~LogFolder() {
  std::error_code ignored;
  if (made_) std::filesystem::remove_all(path_, ignored);
}

absl::StatusOr<HlSmiText> AskHlSmi(const HlSmiCall& call) {
  const LogFolder logs;
  const std::vector<std::string> environ = VendorEnvironment(call.environ, logs.path());
  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<HlSmiText> answer = Ask(call, environ, AllFields(), call.limit);
  // One that hung, or could not be started, does no better the second time.
  const bool again = answer.ok() ? answer->cards.empty() : absl::IsUnavailable(answer.status());
  const auto left = call.limit - std::chrono::duration_cast<milliseconds>(
                                     std::chrono::steady_clock::now() - begin);
  if (!again || left <= milliseconds(0)) return answer;
  absl::StatusOr<HlSmiText> second = Ask(call, environ, CommonFields(), left);
  return second.ok() || !answer.ok() ? second : answer;
}

}  // namespace muster
