#include "common/config/byte_size.h"

#include <fmt/format.h>

#include <optional>

#include "common/config/text.h"

namespace muster {
namespace {

absl::Status Bad(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format(
      "{} is not a number of bytes: {} (write for example 512MiB or 4GiB)", Quoted(text), why));
}

}  // namespace

absl::StatusOr<uint64_t> ParseByteSize(std::string_view text) {
  std::string_view rest = Trim(text);
  if (rest.empty()) return Bad(text, "it is empty");
  size_t digits = 0;
  while (digits < rest.size() && IsDigit(rest[digits])) ++digits;
  if (digits == 0) return Bad(text, fmt::format("expected a number, found {}", Quoted(rest)));
  const std::string_view number = rest.substr(0, digits);
  const std::string_view unit = Trim(rest.substr(digits));
  int shift = 0;
  if (unit == "KiB") {
    shift = 10;
  } else if (unit == "MiB") {
    shift = 20;
  } else if (unit == "GiB") {
    shift = 30;
  } else if (unit.starts_with('.')) {
    return Bad(text, "only whole numbers are known");
  } else if (!unit.empty()) {
    return Bad(text, fmt::format("unknown unit {}, known are KiB, MiB and GiB", Quoted(unit)));
  }
  const std::optional<uint64_t> count = ParseNumber(number, kMaxByteSize >> shift);
  if (!count) return Bad(text, "it is more than 1024 TiB");
  return *count << shift;
}

}  // namespace muster
