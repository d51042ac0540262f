// Tells the attached agent which log files have grown, all in one packet and at most once per
// kInterval, however fast ranks write. Nothing is forgotten: what could not be told waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>

#include "agent/shim/agent_link.h"
#include "agent/shim/poller.h"

namespace muster::shim {

class LogGrowth {
 public:
  static constexpr std::chrono::milliseconds kInterval{10};

  explicit LogGrowth(AgentLink& link) : link_(link) {}

  void Note(uint32_t rank) { grown_.insert(rank); }
  // Tells what is due.
  void Tell(SteadyTime now);
  // When Tell should be called; empty: nothing waits, or nobody can be told now.
  std::optional<SteadyTime> deadline() const;

 private:
  AgentLink& link_;
  std::set<uint32_t> grown_;
  SteadyTime next_ = {};
};

}  // namespace muster::shim
