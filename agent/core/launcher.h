// The seam between the agent's core and the processes that own ranks: one muster-shim per attempt
// and node. The core says what is wanted, the launcher starts, follows and commands shims and tells
// what they recorded. It never decides anything, never invents a record, and never calls back from
// inside a call: every callback runs later, on the loop thread. Everything here lives on the loop
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "muster/internal/shim.pb.h"

namespace muster {

class Launcher {
 public:
  // Hears what shims did. Lives on the loop thread.
  class Observer {
   public:
    virtual ~Observer() = default;
    // One record of the shim of `id`, in order of `index`. Between one Launch or Adopt and the next
    // a record comes once; after Adopt(id, n) the first has index n.
    virtual void OnRecord(const AttemptId& id, const internal::ShimRecord& record) = 0;
    // No shim of `id` lives, and every record that it left was delivered. Comes exactly once for
    // each Launch or Adopt unless Release forgot the attempt before: after Quit it is the expected
    // end, at any other time a death. Also comes when a shim could not be started, and when Adopt
    // found nothing. `reason` is for people, one sentence without a final full stop.
    virtual void OnGone(const AttemptId& id, const std::string& reason) = 0;
  };

  // Size of a rank's frame file once nothing can write to it any more.
  struct LogSize {
    uint32_t rank = 0;
    uint64_t bytes = 0;
  };
  // What Sweep found.
  struct SweepResult {
    // Processes of the attempt that had to be killed, the shim not counted.
    uint32_t killed = 0;
    // Processes that could not be killed, in words. Empty when all are gone.
    std::vector<std::string> unkillable;
    // One entry per frame file in the attempt's directory, ascending by rank.
    std::vector<LogSize> logs;
  };
  using SweepDone = std::function<void(SweepResult)>;

  virtual ~Launcher() = default;

  // Must be called before anything else. The observer outlives the launcher or is replaced by null.
  virtual void SetObserver(Observer* observer) = 0;

  // Attempts that have a directory on this node, whether the core knows them or not. Read from
  // disk; called once, when the core starts.
  virtual std::vector<AttemptId> ListAttempts() = 0;

  // Creates the directory of `id` and starts a shim with `bootstrap`. The launcher fills
  // `attempt_directory`, `lease_directory` and `cgroup_directory`; all else comes from the core.
  // When a living shim holds the directory already (started by an agent that died), that one is
  // followed from record 1 instead. A failure is told by OnGone.
  virtual void Launch(const AttemptId& id, internal::ShimBootstrap bootstrap) = 0;

  // Follows the shim of `id` that an earlier agent started: by its socket while its lock is held,
  // else by what is left of events.rec, then OnGone. Nothing there at all: OnGone.
  virtual void Adopt(const AttemptId& id, uint64_t next_index) = 0;

  // The following are told to the shim of `id` as soon as it is connected, in the order of the
  // calls, and are ignored when there is none. The shim takes each of them any number of times.

  // Starts all ranks.
  virtual void Run(const AttemptId& id, internal::ShimRun run) = 0;
  // Stops all ranks; `grace` zero: SIGKILL at once. A shorter grace replaces a longer one.
  virtual void Stop(const AttemptId& id, std::chrono::milliseconds grace) = 0;
  // Signals rank processes; `ranks` empty: all. Not kept for a shim that is not connected.
  virtual void Signal(const AttemptId& id, int signal, std::vector<uint32_t> ranks) = 0;
  // The shim stops its ranks by itself when `lease` passes without another renewal; above zero. Not
  // kept for a shim that is not connected: a renewal delivered late would be too long.
  virtual void Renew(const AttemptId& id, std::chrono::milliseconds lease) = 0;
  // Bytes of a rank's frame file, from its beginning, that are stored elsewhere.
  virtual void Committed(const AttemptId& id, uint32_t rank, uint64_t bytes) = 0;
  // The shim may exit: its last record (`stopped` or `prepare_failed`) is journalled. Files stay. A
  // shim with processes that cannot be killed stays, and keeps their leases, until they are gone.
  virtual void Quit(const AttemptId& id) = 0;

  // Makes sure that nothing of `id` runs, without asking anybody: SIGKILLs the shim if it lives,
  // then everything that carries the marks of the attempt (its cgroup, or its environment), until
  // none is left or a bound of a few seconds has passed. Allowed for attempts that were neither
  // launched nor adopted. OnGone is not called for a shim that Sweep killed. `done` runs later,
  // exactly once.
  virtual void Sweep(const AttemptId& id, SweepDone done) = 0;

  // Forgets the attempt and deletes its directory, after telling the shim to exit if it still
  // lives. Only for attempts of which nothing runs. No callback about `id` comes afterwards.
  virtual void Release(const AttemptId& id) = 0;
};

}  // namespace muster
