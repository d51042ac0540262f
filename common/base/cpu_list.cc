#include "common/base/cpu_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace muster {
namespace {

// More than any kernel is built for.
constexpr uint32_t kMaxCpu = 65535;

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::optional<uint32_t> Number(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > kMaxCpu) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

absl::StatusOr<CpuList> ParseCpuList(std::string_view text) {
  CpuList cpus;
  std::string_view rest = Trim(text);
  bool more = !rest.empty();
  while (more) {
    const size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    const std::string_view part = Trim(rest.substr(0, comma));
    rest = more ? rest.substr(comma + 1) : std::string_view();
    const size_t dash = part.find('-');
    const std::optional<uint32_t> first = Number(Trim(part.substr(0, dash)));
    const std::optional<uint32_t> last =
        dash == std::string_view::npos ? first : Number(Trim(part.substr(dash + 1)));
    if (!first || !last || *last < *first) {
      return absl::InvalidArgumentError(
          fmt::format("'{}' is no list of processors: expected numbers and ranges such as "
                      "0-9,20-29, found '{}'",
                      text, part));
    }
    for (uint32_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    // Ranges that are repeated must not take the memory.
    if (cpus.size() > 2 * kMaxCpu) {
      return absl::InvalidArgumentError("the list of processors names some again and again");
    }
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string CpuListText(const CpuList& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += fmt::format_int(cpus[i]).str();
    if (last > i) text += fmt::format("-{}", cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace muster
