// One node as its kernel and its shims know it: attempt directories, shims, ranks. It outlives
// agents; only a reboot empties it of processes, and only a wipe of directories. What a real shim
// does is done here on timers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/launcher.h"
#include "tests/sim/cluster/random.h"
#include "tests/sim/cluster/script_book.h"
#include "tests/sim/cluster/truth.h"
#include "tests/testing/sim_executor.h"

namespace muster::testing {

class FakeHost {
 public:
  FakeHost(SimQueue& queue, Random& random, const ScriptBook& book, Truth& truth, std::string node);

  // --- For the launcher of the agent that lives now ---

  // Called whenever there are new records of an attempt, or its shim died. Null: nobody.
  void SetListener(std::function<void(const AttemptId&)> listener) {
    listener_ = std::move(listener);
  }
  bool HasDirectory(const AttemptId& id) const { return attempts_.contains(id); }
  void MakeDirectory(const AttemptId& id) { attempts_[id]; }
  bool ShimAlive(const AttemptId& id) const;
  std::vector<AttemptId> Directories() const;
  std::vector<internal::ShimRecord> RecordsFrom(const AttemptId& id, uint64_t index) const;
  void StartShim(const AttemptId& id, const internal::ShimBootstrap& bootstrap);
  void Run(const AttemptId& id, const std::string& address, uint32_t port);
  // A prepared shim holds the port.
  bool Listens(uint32_t port) const;
  void Stop(const AttemptId& id, Duration grace);
  void Signal(const AttemptId& id, int signal, const std::vector<uint32_t>& ranks);
  void Renew(const AttemptId& id, Duration lease);
  void Committed(const AttemptId& id, uint32_t rank, uint64_t bytes);
  void Quit(const AttemptId& id);
  Launcher::SweepResult Sweep(const AttemptId& id);
  void Release(const AttemptId& id);

  // --- For the spool reader ---
  const std::string* Log(const AttemptId& id, uint32_t rank) const;
  uint64_t FirstByte(const AttemptId& id, uint32_t rank) const;

  // --- Faults ---
  void CrashShim(const AttemptId& id);
  std::vector<AttemptId> LiveShims() const;
  // Every process is gone; directories stay.
  void Reboot();
  // Directories are gone.
  void Wipe();

 private:
  struct Rank {
    RankScript script;
    bool running = false;
    bool ended = false;
    bool log_closed = false;
    // SIGKILL was sent, and will be obeyed some time.
    bool dying = false;
    std::string log;
    uint64_t punched = 0;
  };
  struct Attempt {
    internal::ShimBootstrap bootstrap;
    std::vector<std::string> records;
    std::map<uint32_t, Rank> ranks;
    // The shim lives; a new number for each one, so that timers of dead ones do nothing.
    bool alive = false;
    uint64_t incarnation = 0;
    bool prepared = false;
    uint32_t port = 0;
    bool prepare_failed = false;
    bool run = false;
    bool stopping = false;
    bool stopped = false;
    bool quit_told = false;
    std::optional<TimePoint> kill_at;
    std::optional<TimePoint> lease_until;
  };

  Attempt* Live(const AttemptId& id);
  // Runs `task` later if the same shim still lives then.
  void After(const AttemptId& id, Duration delay, std::function<void(Attempt&)> task);
  void Record(const AttemptId& id, Attempt& attempt, internal::ShimRecord record);
  void Prepare(const AttemptId& id, Attempt& attempt);
  void StartRank(const AttemptId& id, Attempt& attempt, uint32_t number);
  void ScheduleOutput(const AttemptId& id, uint32_t number);
  void Write(const AttemptId& id, uint32_t number, Rank& rank);
  void EndRank(const AttemptId& id, Attempt& attempt, uint32_t number, RankEnd end);
  void CheckDone(const AttemptId& id, Attempt& attempt);
  void Finish(const AttemptId& id, Attempt& attempt, std::vector<std::string> unkillable);
  void StopRanks(const AttemptId& id, Attempt& attempt, Duration grace);
  void KillRanks(const AttemptId& id, Attempt& attempt);
  void DieLate(const AttemptId& id, uint32_t number, Rank& rank);
  void ExitIfDone(const AttemptId& id, Attempt& attempt);
  void WatchLease(const AttemptId& id);

  SimQueue& queue_;
  Random& random_;
  const ScriptBook& book_;
  Truth& truth_;
  const std::string node_;
  std::function<void(const AttemptId&)> listener_;
  std::map<AttemptId, Attempt> attempts_;
  uint64_t next_incarnation_ = 1;
  // Never given twice, so that whoever reached one reached this attempt.
  uint32_t next_port_ = 29500;
  // Timers of ranks check it: a reboot ends them all.
  uint64_t boot_ = 1;
};

}  // namespace muster::testing
