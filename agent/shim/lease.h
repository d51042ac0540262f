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
#include <vector>

#include "agent/shim/port_hold.h"
#include "common/io/unique_fd.h"
#include "muster/internal/shim.pb.h"

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

// What slots are, and so whose they are: plain slots are the node's, of which a machine may have
// several; cards are the machine's, unless they are simulated.
enum class SlotKind { kPlain, kCardOfMachine, kCardOfNode };

class LeaseSet {
 public:
  // `directory`: from OpenLeaseDirectory. `holder`: who holds the leases, as told to others.
  LeaseSet(LeaseDirectory directory, std::string node_id, std::string holder,
           SlotKind kind = SlotKind::kPlain);

  // Takes a slot of the node. Empty on success, else what is wrong, with the present holder.
  // `held`: set to whether somebody has it.
  std::string TakeSlot(uint32_t slot, bool* held = nullptr);

  struct Port {
    uint32_t number = 0;
    // Things that the user should know.
    std::string warning;
  };
  // Reserves `wanted`, or with 0 the first free port from 29500 to 29999: locked against other
  // launches, and held by `hold` against everybody else until that is released, because a rank must
  // be able to bind it then. With `companion` the port that belongs to it (CompanionPort) is wanted
  // as well: it is locked, too, and a port without a free one is taken only when it was asked for,
  // or there is no other. Empty on success.
  std::string TakePort(uint32_t wanted, bool companion, PortHold& hold, Port& port);

  // Makes the marks of WithholdAll and keeps the locks, for who may die before it knows more.
  // Empty, or why not.
  std::string MarkAll(const std::string& attempt, const std::string& reason);
  // Withholds the slots that are held from everybody, with the locks gone, too, until
  // EndWithholding of the same `attempt` (see agent/shim/withheld.h). Empty, or why not; the locks
  // stay then.
  std::string WithholdAll(const std::string& attempt, const std::string& reason);
  // Ends that for these slots, held or not.
  void EndWithholding(const std::string& attempt, const std::vector<uint32_t>& slots);

  void ReleaseSlot(uint32_t slot);
  void ReleasePort();
  void ReleaseAll();

 private:
  // Locks a file of the directory. On failure `problem` says why; `holder` is set when somebody has
  // it.
  UniqueFd Lock(const std::string& name, std::optional<std::string>& holder, std::string& problem);

  std::string LeaseOf(uint32_t slot) const;
  bool DirectoryMeansSomething();
  std::string TryPort(uint32_t candidate, PortHold& hold);
  std::string TryCompanion(uint32_t port);

  LeaseDirectory directory_;
  std::string node_id_;
  std::string holder_;
  SlotKind kind_;
  std::map<uint32_t, UniqueFd> slots_;
  UniqueFd port_;
  UniqueFd companion_;
};

// The leases of the slots of an attempt. Nothing, with the reason in `problem`, without a
// directory.
std::optional<LeaseSet> LeasesFor(const internal::ShimBootstrap& bootstrap, std::string& problem);

// `text` with every byte outside [A-Za-z0-9._-] as %XX, so that it is one file name.
std::string EncodeFileName(std::string_view text);

// The port beside the rendezvous port that ranks of Gaudi use when PT_ENABLE_INTER_HOST_CACHING is
// set: 100 above it, with its bytes swapped, because the library stores it in the order of the
// host.
uint16_t CompanionPort(uint32_t port);

}  // namespace muster::shim
