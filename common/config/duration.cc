#include "common/config/duration.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <optional>

#include "common/base/annotate.h"
#include "common/config/text.h"

namespace muster {
namespace {

struct Unit {
  std::string_view name;
  Duration length;
};

constexpr std::array<Unit, 5> kUnits{{{"d", std::chrono::hours(24)},
                                      {"h", std::chrono::hours(1)},
                                      {"m", std::chrono::minutes(1)},
                                      {"s", std::chrono::seconds(1)},
                                      {"ms", std::chrono::milliseconds(1)}}};

absl::Status Bad(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format(
      "{} is not a length of time: {} (write for example 30s, 5m or 1h30m)", Quoted(text), why));
}

std::string_view TakeWhile(std::string_view& rest, bool (*accept)(char)) {
  size_t n = 0;
  while (n < rest.size() && accept(rest[n])) ++n;
  const std::string_view taken = rest.substr(0, n);
  rest.remove_prefix(n);
  return taken;
}

// `whole.fraction` units of `unit`, nothing when it exceeds kMaxDuration.
std::optional<Duration> Times(std::string_view whole, std::string_view fraction, Duration unit) {
  const auto count = ParseNumber(whole, static_cast<uint64_t>(kMaxDuration / unit));
  if (!count) return std::nullopt;
  Duration result = unit * static_cast<int64_t>(*count);
  Duration digit_value = unit;
  for (const char c : fraction) {
    digit_value /= 10;
    result += digit_value * (c - '0');
  }
  return result;
}

}  // namespace

absl::StatusOr<Duration> ParseDuration(std::string_view text) {
  std::string_view rest = Trim(text);
  if (rest.empty()) return Bad(text, "it is empty");
  Duration total{0};
  size_t next_unit = 0;
  bool any = false;
  while (!rest.empty()) {
    const std::string_view whole = TakeWhile(rest, IsDigit);
    if (whole.empty()) {
      return Bad(text, fmt::format("expected a number, found {}", Quoted(rest)));
    }
    std::string_view fraction;
    if (rest.substr(0, 1) == ".") {
      rest.remove_prefix(1);
      fraction = TakeWhile(rest, IsDigit);
      if (fraction.empty()) return Bad(text, "a digit is missing behind the point");
    }
    const std::string_view name = TakeWhile(rest, IsAlpha);
    size_t unit = next_unit;
    if (name.empty()) {
      if (any || !rest.empty()) return Bad(text, "a unit is missing");
      unit = 3;  // A number alone: seconds.
    } else {
      while (unit < kUnits.size() && kUnits[unit].name != name) ++unit;
    }
    if (unit == kUnits.size()) {
      for (const Unit& known : kUnits) {
        if (known.name == name) return Bad(text, "units go from large to small, each once");
      }
      return Bad(text, fmt::format("unknown unit {}", Quoted(name)));
    }
    const std::optional<Duration> part = Times(whole, fraction, kUnits[unit].length);
    if (!part || *part > kMaxDuration - total) return Bad(text, "it is longer than ten years");
    total += *part;
    next_unit = unit + 1;
    any = true;
  }
  return total;
}

std::string FormatDuration(Duration duration) {
  std::string text;
  for (const Unit& unit : kUnits) {
    const int64_t count = duration / unit.length;
    if (count <= 0) continue;
    text += fmt::format("{}{}", count, unit.name);
    duration -= unit.length * count;
  }
  return text.empty() ? "0s" : text;
}

}  // namespace muster
