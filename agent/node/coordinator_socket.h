// Whose word counts as root's own: the Unix socket of a coordinator.
#pragma once

#include <sys/types.h>

#include <string>

namespace muster {

// The path in `unix:PATH`; empty for other targets.
std::string SocketPathOf(const std::string& target);

// How much of the path has to be safe from others.
enum class PlaceTrust {
  // All of it.
  kWholePath,
  // The directory of the socket: for a coordinator that has just made it, for this agent.
  kDirectory,
};

// True when nobody but `user` and root can be the coordinator at the Unix socket `path`: it is
// `user`'s, and nobody else can put, or ever could have put, another one in its place. Not so in a
// directory like /tmp: whoever was there first could stay connected, and leave the place to root. A
// coordinator that has just ended has left no socket; the place counts all the same. False for "".
bool IsPlaceOfCoordinator(const std::string& path, uid_t user, PlaceTrust trust);

}  // namespace muster
