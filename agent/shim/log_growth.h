// Tells the attached agent which log files have grown and how much of them is fixed, all in one
// packet and at most once per kInterval, however fast ranks write. Nothing is forgotten: what could
// not be told waits, and an agent that attaches is told of every file.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "agent/shim/agent_link.h"
#include "agent/shim/poller.h"

namespace muster::shim {

class LogGrowth {
 public:
  static constexpr std::chrono::milliseconds kInterval{10};

  explicit LogGrowth(AgentLink& link) : link_(link) {}

  // `fixed_bytes`: see RankLog.
  void Note(uint32_t rank, uint64_t fixed_bytes) {
    grown_.insert(rank);
    fixed_[rank] = fixed_bytes;
  }
  // Tells what is due.
  void Tell(SteadyTime now);
  // When Tell should be called; empty: nothing waits, or nobody can be told now.
  std::optional<SteadyTime> deadline() const;

 private:
  AgentLink& link_;
  bool Due() const { return !grown_.empty() || told_attach_ != link_.attaches(); }

  std::set<uint32_t> grown_;
  // Of every file.
  std::map<uint32_t, uint64_t> fixed_;
  // The attach whose agent was told of every file.
  uint64_t told_attach_ = 0;
  SteadyTime next_ = {};
};

}  // namespace muster::shim
