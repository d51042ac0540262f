// Whose word counts as root's own: the Unix socket of a coordinator.
#pragma once

#include <sys/types.h>

#include <string>

namespace muster {

// The path in `unix:PATH`; empty for other targets.
std::string SocketPathOf(const std::string& target);

// True when nobody but `user` and root can be the coordinator at the Unix socket `path`: it is
// `user`'s, and nobody else can put another one in its place. A coordinator that has just ended has
// left none; then the place has to be one where others cannot make one either. False for "".
bool IsPlaceOfCoordinator(const std::string& path, uid_t user);

}  // namespace muster
