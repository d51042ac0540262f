// The network of a real node: its interfaces as the kernel lists them, names by the system's
// resolver (on threads of their own, with a limit), connections by agent/node/tcp_probe.h. Lives on
// the loop thread and never blocks it.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/core/rendezvous_network.h"
#include "agent/node/tcp_probe.h"
#include "common/io/event_loop.h"
#include "common/io/user_lookups.h"

namespace muster {

class SystemRendezvous final : public RendezvousNetwork {
 public:
  struct Options {
    // Addresses that the node reports; they count as its own wherever they come from.
    std::vector<std::string> addresses;
    // For one connection, and for the resolver.
    std::chrono::milliseconds limit{2000};
  };

  // `loop` outlives it.
  SystemRendezvous(EventLoop& loop, Options options);

  void CheckOwn(const std::string& address, Checked done) override;
  std::vector<std::string> AddressesOf(const std::string& socket_ifname) override;
  void Probe(const std::vector<std::string>& addresses, uint32_t port, Probed done) override;

 private:
  struct Round;

  std::set<std::string> OwnAddresses() const;
  void ProbeName(const std::shared_ptr<Round>& round, int index, uint32_t port);

  EventLoop& loop_;
  const Options options_;
  UserLookups lookups_;
  TcpProbe tcp_;
  // Posted tasks look here whether this object still lives.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace muster
