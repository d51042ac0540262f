// The list of users that a node runs ranks as: a file that belongs to the node's administrator, and
// that a coordinator can neither read nor change. Pure.
//
// One entry per line, blanks around it and `#` comments ignored:
//   alice      this user
//   @trainers  members of this group, but no system users (IsSystemUser)
//   *          everybody but system users
// Root and system users are allowed only by their own names.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <set>
#include <string>
#include <string_view>

namespace muster {

// True for numbers that belong to no person: below 1000 as Debian's adduser has it, and those that
// stand for nobody.
bool IsSystemUser(uid_t uid);

struct AllowList {
  std::set<std::string, std::less<>> users;
  std::set<std::string, std::less<>> groups;
  bool everybody = false;

  bool empty() const { return users.empty() && groups.empty() && !everybody; }
  // True when a user of this name, number and groups (by name) may run.
  bool Allows(std::string_view name, uid_t uid,
              const std::set<std::string, std::less<>>& groups_of_user) const;
};

// Reads a list; `file` is its path, for messages. INVALID_ARGUMENT with `FILE:LINE: reason` for
// every line that is not an entry, one per line.
absl::StatusOr<AllowList> ParseAllowList(std::string_view text, std::string_view file);

// True for what can be the name of a user or group: 1 to 256 bytes, no blank, control character,
// `:`, `,` or `/`, not beginning with `-`, `@`, `#` or `*`.
bool IsAccountName(std::string_view name);

}  // namespace muster
