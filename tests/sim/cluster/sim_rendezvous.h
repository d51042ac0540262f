// The network between simulated nodes as the agent of one of them sees it. Dies with its process.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/rendezvous_network.h"
#include "tests/sim/cluster/truth.h"
#include "tests/testing/sim_executor.h"

namespace muster::testing {

class SimRendezvous final : public RendezvousNetwork {
 public:
  struct Hooks {
    // Why a port of an address is not reached at this moment; empty when it is.
    std::function<std::string(const std::string& address, uint32_t port)> reach;
    // How long the next probe takes; nothing: for ever.
    std::function<std::optional<Duration>()> takes;
  };

  SimRendezvous(SimExecutor& process, Truth& truth, std::string node, Hooks hooks)
      : process_(process), truth_(truth), node_(std::move(node)), hooks_(std::move(hooks)) {}

  void CheckOwn(const std::string&, Checked done) override {
    process_.PostAfter(std::chrono::milliseconds(1), [done] { done(absl::OkStatus()); });
  }
  std::vector<std::string> AddressesOf(const std::string&) override { return {}; }

  void Probe(const std::vector<std::string>& addresses, uint32_t port, Probed done) override {
    const std::optional<Duration> takes = hooks_.takes();
    if (!takes) return truth_.Note(node_ + " never ends its probe");
    process_.PostAfter(*takes, [this, addresses, port, done = std::move(done)] {
      std::vector<v1::ProbedAddress> answers;
      for (const std::string& address : addresses) {
        v1::ProbedAddress& answer = answers.emplace_back();
        answer.set_address(address);
        answer.set_error(hooks_.reach(address, port));
        if (answer.error().empty()) truth_.Reached(node_, address, port);
      }
      done(std::move(answers));
    });
  }

 private:
  SimExecutor& process_;
  Truth& truth_;
  const std::string node_;
  const Hooks hooks_;
};

}  // namespace muster::testing
