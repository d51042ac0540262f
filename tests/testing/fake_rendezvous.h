// A RendezvousNetwork that knows what a test says. Answers in a task of its own, or when the test
// says so.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/rendezvous_network.h"
#include "common/base/executor.h"

namespace muster::testing {

class FakeRendezvous final : public RendezvousNetwork {
 public:
  struct Asked {
    std::vector<std::string> addresses;
    uint32_t port = 0;
    Probed done;
  };

  explicit FakeRendezvous(Executor& executor) : executor_(executor) {}

  void CheckOwn(const std::string& address, Checked done) override {
    const auto found = foreign.find(address);
    executor_.Post([status = found == foreign.end() ? absl::OkStatus()
                                                    : absl::InvalidArgumentError(found->second),
                    done = std::move(done)] { done(status); });
  }

  std::vector<std::string> AddressesOf(const std::string& socket_ifname) override {
    return interfaces[socket_ifname];
  }

  void Probe(const std::vector<std::string>& addresses, uint32_t port, Probed done) override {
    probes.push_back({addresses, port, std::move(done)});
    if (!hold) Answer(probes.size() - 1);
  }

  // Answers a probe that was held, in a task.
  void Answer(size_t probe) {
    std::vector<v1::ProbedAddress> answers;
    for (const std::string& address : probes[probe].addresses) {
      v1::ProbedAddress& answer = answers.emplace_back();
      answer.set_address(address);
      answer.set_error(errors[address]);
    }
    executor_.Post([answers = std::move(answers), done = probes[probe].done] { done(answers); });
  }

  // Addresses that are not the node's, with what is said of them.
  std::map<std::string, std::string> foreign;
  // By the value of HCCL_SOCKET_IFNAME.
  std::map<std::string, std::vector<std::string>> interfaces;
  // Why an address cannot be reached; the others can.
  std::map<std::string, std::string> errors;
  std::vector<Asked> probes;
  bool hold = false;

 private:
  Executor& executor_;
};

}  // namespace muster::testing
