#include "agent/node/allow_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace muster {
namespace {

constexpr size_t kMaxNameBytes = 256;

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

bool IsSystemUser(uid_t uid) {
  constexpr uid_t kFirstPerson = 1000;
  // Of 16 and of 32 bits; the others are 65534 and 65535 and -2 and -1.
  constexpr uid_t kNobody = 65534;
  return uid < kFirstPerson || uid == kNobody || uid == kNobody + 1 || uid >= uid_t{0} - 2;
}

bool AllowList::Allows(std::string_view name, uid_t uid,
                       const std::set<std::string, std::less<>>& groups_of_user) const {
  if (users.contains(name)) return true;
  if (IsSystemUser(uid)) return false;
  return everybody || std::any_of(groups_of_user.begin(), groups_of_user.end(),
                                  [&](const auto& group) { return groups.contains(group); });
}

bool IsAccountName(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  if (std::string_view("-@#*").find(name.front()) != std::string_view::npos) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c > ' ' && c != 0x7f && c != ':' && c != ',' && c != '/';
  });
}

absl::StatusOr<AllowList> ParseAllowList(std::string_view text, std::string_view file) {
  AllowList list;
  std::vector<std::string> problems;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = Trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const bool group = line.front() == '@';
    const std::string_view name = group ? line.substr(1) : line;
    if (line == "*") {
      list.everybody = true;
    } else if (!IsAccountName(name)) {
      problems.push_back(
          fmt::format("{}:{}: a user, @GROUP or * expected, one on each line, got \"{}\"", file,
                      number, line.substr(0, 60)));
    } else {
      (group ? list.groups : list.users).emplace(name);
    }
  }
  if (problems.empty()) return list;
  return absl::InvalidArgumentError(fmt::format("{}", fmt::join(problems, "\n")));
}

}  // namespace muster
