#include "agent/node/system_user_gate.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

#include "agent/node/coordinator_socket.h"
#include "common/base/annotate.h"
#include "common/io/atomic_file.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

constexpr size_t kMaxListBytes = size_t{1} << 20;
constexpr size_t kFirstBufferBytes = 16384;
constexpr size_t kMaxBufferBytes = size_t{4} << 20;
constexpr int kMaxGroups = 65536;

// Calls a getpw*_r or getgr*_r function with a buffer that is large enough. The error number; 0
// with `found` null when there is no entry.
template <typename Entry, typename Call>
int CallWithBuffer(std::vector<char>& buffer, Entry& entry, Entry*& found, Call call) {
  buffer.resize(kFirstBufferBytes);
  while (true) {
    const int error = call(&entry, buffer.data(), buffer.size(), &found);
    if (error == EINTR) continue;
    if (error != ERANGE || buffer.size() >= kMaxBufferBytes) return error;
    buffer.resize(buffer.size() * 2);
  }
}

std::optional<uid_t> NumberOf(const std::string& user) {
  uid_t number = 0;
  const char* const end = user.data() + user.size();
  const auto result = std::from_chars(user.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return number;
}

// Some modules of the user database say "not found" with one of these.
bool MeansNotFound(int error) {
  return error == 0 || error == ENOENT || error == ESRCH || error == EBADF || error == EPERM;
}

absl::StatusOr<std::vector<gid_t>> GroupsOf(const RunAs& user) {
  std::vector<gid_t> groups(64);
  while (true) {
    int count = static_cast<int>(groups.size());
    if (::getgrouplist(user.name.c_str(), user.gid, groups.data(), &count) >= 0) {
      groups.resize(static_cast<size_t>(count));
      return groups;
    }
    if (groups.size() >= kMaxGroups) {
      return absl::InternalError(
          fmt::format("the groups of user \"{}\" cannot be told", user.name));
    }
    groups.resize(groups.size() * 2);
  }
}

// By name, as POSIX has it, else by number. Blocks as long as the user database likes.
absl::StatusOr<RunAs> FindUser(const std::string& user) {
  std::vector<char> buffer;
  passwd entry = {};
  passwd* found = nullptr;
  int error = CallWithBuffer(buffer, entry, found,
                             [&](auto... rest) { return ::getpwnam_r(user.c_str(), rest...); });
  const std::optional<uid_t> number = NumberOf(user);
  if (found == nullptr && number.has_value()) {
    error = CallWithBuffer(buffer, entry, found,
                           [&](auto... rest) { return ::getpwuid_r(*number, rest...); });
  }
  if (found == nullptr) {
    if (MeansNotFound(error)) {
      return absl::NotFoundError(fmt::format("there is no user \"{}\" on this node", user));
    }
    return ErrnoStatus(error, fmt::format("the user database was asked for \"{}\"", user));
  }
  RunAs run_as;
  run_as.self = false;
  run_as.name = entry.pw_name;
  run_as.uid = entry.pw_uid;
  run_as.gid = entry.pw_gid;
  const std::string_view home = entry.pw_dir;
  run_as.home = home.starts_with('/') ? home : "/";
  const std::string_view shell = entry.pw_shell;
  run_as.shell = shell.empty() ? "/bin/sh" : shell;
  absl::StatusOr<std::vector<gid_t>> groups = GroupsOf(run_as);
  if (!groups.ok()) return groups.status();
  run_as.groups = *std::move(groups);
  return run_as;
}

// Those of `names` that the user is in.
std::set<std::string, std::less<>> Memberships(const RunAs& user,
                                               const std::set<std::string, std::less<>>& names) {
  std::set<std::string, std::less<>> member_of;
  for (const std::string& name : names) {
    std::vector<char> buffer;
    group entry = {};
    group* found = nullptr;
    (void)CallWithBuffer(buffer, entry, found,
                         [&](auto... rest) { return ::getgrnam_r(name.c_str(), rest...); });
    if (found == nullptr) continue;
    if (std::find(user.groups.begin(), user.groups.end(), entry.gr_gid) != user.groups.end()) {
      member_of.insert(name);
    }
  }
  return member_of;
}

absl::Status NotAllowed(const std::string& user, const UserGateOptions& options) {
  return absl::PermissionDeniedError(fmt::format(
      "this node does not run jobs of user \"{}\": its administrator can allow it by a line \"{}\" "
      "in {}",
      user, user, options.allow_file));
}

// The user as one whom the agent may run jobs of. Blocks as long as the user database likes.
absl::StatusOr<RunAs> FindAllowed(const std::string& user, const std::optional<AllowList>& list,
                                  const UserGateOptions& options) {
  absl::StatusOr<RunAs> found = FindUser(user);
  if (!found.ok()) return found;
  if (list.has_value() &&
      !list->Allows(found->name, found->uid, Memberships(*found, list->groups))) {
    return NotAllowed(found->name, options);
  }
  // Another name of the agent's own user.
  if (found->uid == ::geteuid()) return RunAs{};
  return found;
}

}  // namespace

SystemUserGate::SystemUserGate(Executor& executor, UserGateOptions options)
    : executor_(executor),
      options_(std::move(options)),
      lookups_(executor, {.limit = options_.lookup_limit}) {}

void SystemUserGate::Admit(const std::string& user, Done done) {
  const auto answer = [&](absl::StatusOr<RunAs> result) {
    executor_.Post([alive = std::weak_ptr<int>(alive_), done = std::move(done),
                    result = std::move(result)]() mutable {
      if (!alive.expired()) done(std::move(result));
    });
  };
  const bool self = user.empty() || user == options_.own_name;
  if (!self && !IsAccountName(user)) {
    return answer(absl::NotFoundError("what the job names as its user cannot be a user's name"));
  }
  if (!options_.is_root) {
    if (self) return answer(RunAs{});
    return answer(absl::PermissionDeniedError(
        fmt::format("the agent of this node belongs to user \"{}\" and runs jobs of nobody else, "
                    "and this one is to run as \"{}\": submit it with user: {}, or let the node be "
                    "served by an agent that runs as root",
                    options_.own_name, user, options_.own_name)));
  }
  if (IsPlaceOfCoordinator(options_.coordinator_socket, ::geteuid(), options_.place_trust)) {
    if (self) return answer(RunAs{});
    return LookUp(user, std::nullopt, std::move(done));
  }
  absl::StatusOr<AllowList> list = ReadAllowList(options_.allow_file);
  if (!list.ok()) return answer(list.status());
  list->users.insert(options_.allowed.begin(), options_.allowed.end());
  if (self) {
    if (!list->users.contains(options_.own_name)) {
      return answer(NotAllowed(options_.own_name, options_));
    }
    return answer(RunAs{});
  }
  if (list->empty()) return answer(NotAllowed(user, options_));
  LookUp(user, *std::move(list), std::move(done));
}

void SystemUserGate::LookUp(const std::string& user, std::optional<AllowList> list, Done done) {
  lookups_.Ask<RunAs>(
      fmt::format("user \"{}\"", user),
      [user, list = std::move(list), options = options_] {
        return FindAllowed(user, list, options);
      },
      std::move(done));
}

absl::StatusOr<AllowList> ReadAllowList(const std::string& path) {
  // Not waiting for the writer of a FIFO. Looked at once it is open: the name may be another file's
  // by then.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info = {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    if (errno == ENOENT) return AllowList{};
    return ErrnoStatus(errno, fmt::format("{} cannot be read", path));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(fmt::format("{} does not count: it is no file", path));
  }
  const bool trusted_owner = info.st_uid == 0 || info.st_uid == ::geteuid();
  if (!trusted_owner || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::PermissionDeniedError(fmt::format(
        "{} does not count, because others than root can write it (it must belong to root, mode "
        "644 or less)",
        path));
  }
  std::string text;
  if (const std::error_code error = ReadFile(fd.get(), text, kMaxListBytes)) {
    return absl::UnavailableError(fmt::format("{} cannot be read: {}", path, error.message()));
  }
  return ParseAllowList(text, path);
}

}  // namespace muster
