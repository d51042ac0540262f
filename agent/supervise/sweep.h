// Ends every process of an attempt whose supervisor is gone. The processes are known by the
// attempt's control group where there is one, by the marks in their environment (MUSTER_JOB_ID,
// MUSTER_ATTEMPT, MUSTER_NODE), and by descent from a rank. Blocks, for a bounded time: call it on
// a worker thread. It never signals its own process and never a process that it cannot tell to
// belong to the attempt.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace muster {

// A process that cannot be mistaken for a later one with the same number.
struct ProcessIdentity {
  int pid = 0;
  // Field 22 of /proc/PID/stat.
  uint64_t start_ticks = 0;
};

struct SweepTarget {
  AttemptId attempt;
  NodeId node;
  // Control group of the attempt; empty: none.
  std::string cgroup_directory;
  // Rank processes that were started since the machine booted and whose end nobody has seen. Each
  // leads a session.
  std::vector<ProcessIdentity> ranks;
};

struct SweepResult {
  // Processes that were found running and ended.
  uint32_t killed = 0;
  // Processes that would not die, in words: number, name, state.
  std::vector<std::string> unkillable;
};

// Kills until nothing is left, or until `limit` is over.
SweepResult Sweep(const SweepTarget& target, std::chrono::milliseconds limit);

// One process as /proc describes it.
struct ProcessStat {
  int pid = 0;
  std::string name;
  char state = '?';
  int parent = 0;
  int session = 0;
  uint64_t start_ticks = 0;
};
// Parses the text of /proc/PID/stat, whose name field may hold blanks and parentheses. False when
// it is not such.
bool ParseProcessStat(std::string_view text, ProcessStat* stat);

// True when an environment ("NAME=value" strings, each ended by NUL) has all three marks of the
// attempt.
bool HasMarks(std::string_view environment, const AttemptId& attempt, const NodeId& node);

}  // namespace muster
