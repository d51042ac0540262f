// A regular expression that lines are chosen by. It works on bytes, takes time in proportion to the
// line whatever the expression is, and bounded memory. Immutable; copies share what was compiled;
// thread-safe.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <string_view>

namespace re2 {
class RE2;
}

namespace muster {

class LinePattern {
 public:
  static constexpr size_t kMaxBytes = 4096;
  // Steps of the compiled expression: each may cost some nanoseconds for every byte of a line.
  static constexpr int kMaxSteps = 4000;

  // `expression`: syntax of RE2. INVALID_ARGUMENT says what is wrong, and where.
  static absl::StatusOr<LinePattern> Make(std::string_view expression);

  // True when the expression is found in `line` (without its newline) as a terminal would show it.
  bool Matches(std::string_view line) const;

 private:
  explicit LinePattern(std::shared_ptr<const re2::RE2> compiled) : compiled_(std::move(compiled)) {}
  std::shared_ptr<const re2::RE2> compiled_;
};

}  // namespace muster
