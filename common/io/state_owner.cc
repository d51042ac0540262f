#include "common/io/state_owner.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>

#include "common/base/annotate.h"

namespace muster {
namespace {

// The directory when this is root and it belongs to somebody else.
std::optional<struct stat> OfAnother(const std::string& directory) {
  struct stat info = {};
  if (::geteuid() != 0 || ::stat(directory.c_str(), &info) != 0 || info.st_uid == 0) {
    return std::nullopt;
  }
  return info;
}

std::string NameOfUser(uid_t uid) {
  std::array<char, 16384> buffer;
  passwd entry = {};
  passwd* found = nullptr;
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return found->pw_name;
  }
  return fmt::format("{}", uid);
}

}  // namespace

absl::Status BecomeOwnerOf(const std::string& directory) {
  const std::optional<struct stat> info = OfAnother(directory);
  if (!info.has_value()) return absl::OkStatus();
  if (::setgroups(0, nullptr) != 0 || ::setresgid(info->st_gid, info->st_gid, info->st_gid) != 0 ||
      ::setresuid(info->st_uid, info->st_uid, info->st_uid) != 0) {
    return ErrnoStatus(errno, fmt::format("become the owner of {}", directory));
  }
  return absl::OkStatus();
}

absl::Status CheckOwnerOf(const std::string& directory) {
  const std::optional<struct stat> info = OfAnother(directory);
  if (!info.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "state directory {} belongs to {}, who could not use any more what root makes there: start "
      "the service, or run this as {}",
      directory, NameOfUser(info->st_uid), NameOfUser(info->st_uid)));
}

}  // namespace muster
