// Where the ranks of a job can meet: what an agent has to know of the network for that. The seam
// between the agent's core and the node's sockets; see agent/node/system_rendezvous.h for the real
// one.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "muster/v1/agent.pb.h"

namespace muster {

class RendezvousNetwork {
 public:
  // OK, or a whole sentence for the submitter, without a final full stop.
  using Checked = std::function<void(absl::Status)>;
  // One for each address, in the order in which they were asked for.
  using Probed = std::function<void(std::vector<v1::ProbedAddress>)>;

  virtual ~RendezvousNetwork() = default;

  // Whether `address`, numeric or a name, is one of this node. `done` runs later, exactly once
  // unless this object is destroyed before, on the loop thread.
  virtual void CheckOwn(const std::string& address, Checked done) = 0;

  // Addresses of the interfaces that HCCL_SOCKET_IFNAME with this value means: IPv4, in the order
  // of the kernel. Never blocks.
  virtual std::vector<std::string> AddressesOf(const std::string& socket_ifname) = 0;

  // Tries to connect to `port` of every address, of all at once, for a bounded time. `done` as
  // above.
  virtual void Probe(const std::vector<std::string>& addresses, uint32_t port, Probed done) = 0;
};

}  // namespace muster
