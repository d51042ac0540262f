// Whose word counts as root's own: the Unix socket of a coordinator.
#pragma once

#include <sys/types.h>

#include <string>

namespace muster {

// The path in `unix:PATH`; empty for other targets.
std::string SocketPathOf(const std::string& target);

// True when `path` is a socket that belongs to `user`, and when nobody but `user` and root can put
// another one in its place.
bool IsSocketOf(const std::string& path, uid_t user);

}  // namespace muster
