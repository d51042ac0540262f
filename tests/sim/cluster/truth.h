// What really happened to ranks, seen from outside everything under test, and the invariants that
// hold at every moment. Also keeps the trace that is printed when one does not.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "muster/v1/agent.pb.h"
#include "tests/testing/sim_executor.h"

namespace muster::testing {

// How a rank really ended.
struct RankEnd {
  int code = 0;
  int signal = 0;
  // The program was never executed.
  bool exec_failed = false;
  friend bool operator==(const RankEnd&, const RankEnd&) = default;
};

struct RankTruth {
  std::string node;
  int starts = 0;
  bool running = false;
  std::optional<RankEnd> end;
  // Every byte of its frame file, ever.
  std::string log;
};

class Truth {
 public:
  explicit Truth(const SimQueue& queue) : queue_(const_cast<SimQueue&>(queue)) {}

  // --- Trace and verdict ---

  void Note(std::string line) {
    const double now = std::chrono::duration<double>(queue_.clock().elapsed()).count();
    trace_.push_back(fmt::format("{:10.4f} {}", now, line));
    if (trace_.size() > kTraceLines) trace_.pop_front();
  }
  // Something that must never happen did. The first one counts.
  void Violation(const std::string& what) {
    Note("VIOLATION " + what);
    if (!violation_) violation_ = what;
  }
  const std::optional<std::string>& violation() const { return violation_; }
  std::string TraceTail() const {
    std::string text;
    for (const std::string& line : trace_) text += line + "\n";
    return text;
  }

  // --- Ranks ---

  RankTruth& Rank(const AttemptId& id, uint32_t rank) { return ranks_[{id, rank}]; }
  const std::map<std::pair<AttemptId, uint32_t>, RankTruth>& ranks() const { return ranks_; }

  // --- Rendezvous ---

  // Nodes whose agents know nothing of probes.
  void Exempt(const std::string& node) { exempt_.insert(node); }
  void Reached(const std::string& node, const std::string& address, uint32_t port) {
    reached_.insert({node, address, port});
  }
  void Launched(const AttemptId& id, const std::string& node, bool has_rank_zero) {
    nodes_of_[id][node] = has_rank_zero;
  }
  // Ranks of the attempt are told to meet there: every other node has reached it before.
  void Meets(const AttemptId& id, const std::string& address, uint32_t port) {
    for (const auto& [node, has_rank_zero] : nodes_of_[id]) {
      if (has_rank_zero && exempt_.contains(node)) return;
    }
    for (const auto& [node, has_rank_zero] : nodes_of_[id]) {
      if (has_rank_zero || exempt_.contains(node)) continue;
      if (!reached_.contains({node, address, port})) {
        Violation(
            fmt::format("{} runs, but {} has never reached {}:{}", Name(id), node, address, port));
      }
    }
  }

  void Started(const std::string& node, const AttemptId& id, uint32_t rank) {
    RankTruth& truth = Rank(id, rank);
    truth.node = node;
    if (++truth.starts > 1) Violation(fmt::format("{} rank {} started twice", Name(id), rank));
    truth.running = true;
    ++running_[id.job][id.attempt];
    if (running_[id.job].size() > 1) {
      Violation(fmt::format("two attempts of job {} have running ranks", id.job.value()));
    }
  }
  void Ended(const AttemptId& id, uint32_t rank, std::optional<RankEnd> end) {
    RankTruth& truth = Rank(id, rank);
    if (truth.running) {
      auto& attempts = running_[id.job];
      if (--attempts[id.attempt] == 0) attempts.erase(id.attempt);
    }
    truth.running = false;
    if (end) truth.end = end;
  }
  int Running() const {
    int sum = 0;
    for (const auto& [job, attempts] : running_) {
      for (const auto& [attempt, count] : attempts) sum += count;
    }
    return sum;
  }
  int Running(const JobId& job) const {
    int sum = 0;
    const auto found = running_.find(job);
    if (found == running_.end()) return 0;
    for (const auto& [attempt, count] : found->second) sum += count;
    return sum;
  }

  static std::string Name(const AttemptId& id) {
    return fmt::format("{}/{}", id.job.value(), id.attempt);
  }

 private:
  static constexpr size_t kTraceLines = 400;

  SimQueue& queue_;
  std::deque<std::string> trace_;
  std::optional<std::string> violation_;
  std::map<std::pair<AttemptId, uint32_t>, RankTruth> ranks_;
  std::set<std::string> exempt_;
  std::set<std::tuple<std::string, std::string, uint32_t>> reached_;
  // Nodes of an attempt, and which has rank 0.
  std::map<AttemptId, std::map<std::string, bool>> nodes_of_;
  // Running ranks per job and attempt; attempts with none are left out.
  std::map<JobId, std::map<uint32_t, int>> running_;
};

}  // namespace muster::testing
