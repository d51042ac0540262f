#include "agent/node/coordinator_socket.h"

#include <sys/stat.h>

#include <cerrno>
#include <string_view>

namespace muster {

std::string SocketPathOf(const std::string& target) {
  constexpr std::string_view kScheme = "unix:";
  return target.starts_with(kScheme) ? target.substr(kScheme.size()) : "";
}

bool IsPlaceOfCoordinator(const std::string& path, uid_t user) {
  if (path.empty()) return false;
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "."
                                : slash == 0               ? "/"
                                                           : path.substr(0, slash);
  struct stat place = {};
  if (::stat(directory.c_str(), &place) != 0) return false;
  if (place.st_uid != user && place.st_uid != 0) return false;
  // In a directory like /tmp others cannot take away what is not theirs.
  const bool open_to_others = (place.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (open_to_others && (place.st_mode & S_ISVTX) == 0) return false;
  struct stat socket = {};
  if (::lstat(path.c_str(), &socket) != 0) return errno == ENOENT && !open_to_others;
  return S_ISSOCK(socket.st_mode) && socket.st_uid == user;
}

}  // namespace muster
