#include "agent/node/coordinator_socket.h"

#include <sys/stat.h>

#include <cerrno>
#include <deque>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace muster {
namespace {

constexpr mode_t kOpenToOthers = S_IWGRP | S_IWOTH;
// As many as the kernel follows.
constexpr int kMostLinks = 40;

// True when nobody but `user` and root can make the path `directory` lead elsewhere: each name on
// the way, and on that of each link, is theirs and in a directory where others cannot take it away.
bool IsWayOf(const std::string& directory, uid_t user) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path absolute = fs::absolute(directory, error);
  if (error) return false;
  fs::path at = "/";
  std::deque<std::string> ahead;
  const auto go = [&](const fs::path& way) {
    const fs::path names = way.relative_path();
    ahead.insert(ahead.begin(), names.begin(), names.end());
  };
  go(absolute);
  for (int links = 0; links <= kMostLinks;) {
    struct stat info = {};
    if (::lstat(at.c_str(), &info) != 0) return false;
    if (info.st_uid != user && info.st_uid != 0) return false;
    if (S_ISLNK(info.st_mode)) {
      const fs::path target = fs::read_symlink(at, error);
      if (error) return false;
      at = target.is_absolute() ? fs::path("/") : at.parent_path();
      go(target);
      ++links;
      continue;
    }
    if ((info.st_mode & kOpenToOthers) != 0 && (info.st_mode & S_ISVTX) == 0) return false;
    if (ahead.empty()) return true;
    const std::string name = std::move(ahead.front());
    ahead.pop_front();
    if (name == "..") {
      at = at.parent_path();
    } else if (!name.empty() && name != ".") {
      at /= name;
    }
  }
  return false;
}

}  // namespace

std::string SocketPathOf(const std::string& target) {
  constexpr std::string_view kScheme = "unix:";
  return target.starts_with(kScheme) ? target.substr(kScheme.size()) : "";
}

bool IsPlaceOfCoordinator(const std::string& path, uid_t user, PlaceTrust trust) {
  if (path.empty()) return false;
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "."
                                : slash == 0               ? "/"
                                                           : path.substr(0, slash);
  struct stat place = {};
  if (::stat(directory.c_str(), &place) != 0) return false;
  if (place.st_uid != user && place.st_uid != 0) return false;
  if ((place.st_mode & kOpenToOthers) != 0) return false;
  if (trust == PlaceTrust::kWholePath && !IsWayOf(directory, user)) return false;
  struct stat socket = {};
  if (::lstat(path.c_str(), &socket) != 0) return errno == ENOENT;
  return S_ISSOCK(socket.st_mode) && socket.st_uid == user;
}

}  // namespace muster
