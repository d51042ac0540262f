// Slots and ports of this machine, held by flock so that two launches see each other and nothing
// leaks: a lease ends with the process that holds it, however that ends. One file per slot or port
// in a directory that all users share; the file stays, its text says who holds it. Single-threaded;
// never blocks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/io/unique_fd.h"

namespace muster::shim {

struct LeaseDirectory {
  std::string path;
  UniqueFd fd;
};

// Finds or makes the directory of leases. `wanted` empty: /run/lock/muster, and when that cannot be
// used /tmp/muster-leases-UID. Without `fd` the reason is in `problem`. A symbolic link is refused.
// When root is the user, one that somebody else has made becomes root's: its owner may remove the
// files of others.
LeaseDirectory OpenLeaseDirectory(const std::string& wanted, std::string& problem);

class LeaseSet {
 public:
  // `directory`: from OpenLeaseDirectory. `holder`: who holds the leases, as told to others.
  LeaseSet(LeaseDirectory directory, std::string node_id, std::string holder);

  // Takes a slot of the node. Empty on success, else what is wrong, with the present holder.
  std::string TakeSlot(uint32_t slot);

  // Reserves `wanted`, or with 0 the first free port from 29500 to 29999. A reserved port is locked
  // against other launches and was seen to be free; it is not kept bound, because a rank must be
  // able to bind it. So a program that is not launched by Muster can still take it. Empty on
  // success.
  std::string TakePort(uint32_t wanted, uint32_t& port);

  void ReleaseSlot(uint32_t slot);
  void ReleasePort();
  void ReleaseAll();

 private:
  // Locks a file of the directory. On failure `problem` says why; `holder` is set when somebody has
  // it.
  UniqueFd Lock(const std::string& name, std::optional<std::string>& holder, std::string& problem);

  LeaseDirectory directory_;
  std::string node_id_;
  std::string holder_;
  std::map<uint32_t, UniqueFd> slots_;
  UniqueFd port_;
};

// `text` with every byte outside [A-Za-z0-9._-] as %XX, so that it is one file name.
std::string EncodeFileName(std::string_view text);

// True when TCP `port` can be bound on every local address, by IPv4 and where there is any by IPv6.
// Else `reason` says why not.
bool PortIsFree(uint16_t port, std::string& reason);

}  // namespace muster::shim
