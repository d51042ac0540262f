#include "coordinator/logs/line_pattern.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <cstdint>
#include <string>
#include <utility>

#include "coordinator/logs/carriage_return.h"

namespace muster {
namespace {

// For what was compiled and what is built while it runs.
constexpr int64_t kMaxMemory = int64_t{2} << 20;

// As a message shows it.
std::string_view Beginning(std::string_view text) { return text.substr(0, 200); }

}  // namespace

absl::StatusOr<LinePattern> LinePattern::Make(std::string_view expression) {
  if (expression.size() > kMaxBytes) {
    return absl::InvalidArgumentError(
        fmt::format("the regular expression has {} bytes, at most {} are allowed",
                    expression.size(), kMaxBytes));
  }
  RE2::Options options;
  // Output is bytes: a dot is any one of them, also of text that is not valid UTF-8.
  options.set_encoding(RE2::Options::EncodingLatin1);
  options.set_log_errors(false);
  options.set_max_mem(kMaxMemory);
  auto compiled =
      std::make_shared<const RE2>(re2::StringPiece(expression.data(), expression.size()), options);
  if (!compiled->ok()) {
    std::string where;
    // What it complains about is a part of the expression, told as a copy.
    const std::string& part = compiled->error_arg();
    const size_t at = expression.find(part);
    if (!part.empty() && at != std::string_view::npos) where = fmt::format(" at byte {}", at + 1);
    return absl::InvalidArgumentError(
        fmt::format("'{}': {}{}", Beginning(expression), Beginning(compiled->error()), where));
  }
  if (compiled->ProgramSize() > kMaxSteps) {
    return absl::InvalidArgumentError(
        fmt::format("'{}': it would take too long: compiled it has {} steps, at most {} are "
                    "allowed (use smaller "
                    "counts in {{}})",
                    Beginning(expression), compiled->ProgramSize(), kMaxSteps));
  }
  return LinePattern(std::move(compiled));
}

bool LinePattern::Matches(std::string_view line) const {
  const std::string_view shown = NewestState(line);
  return RE2::PartialMatch(re2::StringPiece(shown.data(), shown.size()), *compiled_);
}

}  // namespace muster
