#include "coordinator/spec/host_fold.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>
#include <string_view>
#include <tuple>

namespace muster {
namespace {

// No number of a host name has more; longer ones are taken as text.
constexpr size_t kMaxDigits = 9;

// A name in three parts; the last number in it is the one that ranges go over.
struct Split {
  std::string before;
  std::string after;
  std::string digits;
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

Split SplitName(const std::string& name) {
  // An address is no name with a number in it.
  const bool address = name.find_first_not_of("0123456789.") == std::string::npos ||
                       name.find(':') != std::string::npos;
  // What follows the first dot is a domain.
  const size_t end = address ? name.size() : std::min(name.find('.'), name.size());
  size_t last = std::string::npos;
  for (size_t i = 0; !address && i < end; ++i) {
    if (IsDigit(name[i])) last = i;
  }
  if (last == std::string::npos) return {name, "", ""};
  size_t first = last;
  while (first > 0 && IsDigit(name[first - 1])) --first;
  if (last + 1 - first > kMaxDigits) return {name, "", ""};
  return {name.substr(0, first), name.substr(last + 1), name.substr(first, last + 1 - first)};
}

struct Group {
  std::string before;
  std::string after;
  // Digits that all have; 0 when none begins with a zero, and lengths differ freely.
  size_t width = 0;
  std::set<uint32_t> numbers;
  // Of the only one, as it was written.
  std::string name;
};

std::string Number(uint32_t number, size_t width) {
  return width == 0 ? fmt::format("{}", number) : fmt::format("{:0{}}", number, width);
}

std::string Ranges(const std::set<uint32_t>& numbers, size_t width) {
  std::vector<std::string> parts;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const uint32_t first = *it;
    uint32_t last = first;
    for (++it; it != numbers.end() && *it == last + 1; ++it) last = *it;
    parts.push_back(first == last
                        ? Number(first, width)
                        : fmt::format("{}-{}", Number(first, width), Number(last, width)));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace

std::string FoldHosts(const std::vector<std::string>& hosts) {
  std::vector<Group> groups;
  for (const std::string& host : hosts) {
    Split split = SplitName(host);
    const bool padded = split.digits.size() > 1 && split.digits.front() == '0';
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& one) {
      if (one.before != split.before || one.after != split.after) return false;
      if (one.numbers.empty() || split.digits.empty()) {
        return one.numbers.empty() && split.digits.empty();
      }
      // n08 and n11 are of one width; n8 and n11 have none.
      return one.width == 0 ? !padded : one.width == split.digits.size();
    });
    uint32_t number = 0;
    if (!split.digits.empty()) {
      std::from_chars(split.digits.data(), split.digits.data() + split.digits.size(), number);
    }
    if (group != groups.end()) {
      if (!split.digits.empty()) group->numbers.insert(number);
      continue;
    }
    Group fresh{split.before, split.after, padded ? split.digits.size() : 0, {}, host};
    if (!split.digits.empty()) fresh.numbers.insert(number);
    groups.push_back(std::move(fresh));
  }
  std::vector<std::string> parts;
  for (const Group& group : groups) {
    if (group.numbers.size() <= 1) {
      parts.push_back(group.name);
    } else if (group.after.empty()) {
      parts.push_back(group.before + Ranges(group.numbers, group.width));
    } else {
      parts.push_back(
          fmt::format("{}[{}]{}", group.before, Ranges(group.numbers, group.width), group.after));
    }
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace muster
