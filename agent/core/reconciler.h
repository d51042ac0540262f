// Compares what the coordinator wants with what is, and lists what to do about it. Pure and
// idempotent: calling it again with nothing changed repeats what was not done yet.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "muster/v1/agent.pb.h"

namespace muster {

// What the agent knows of the shim of an attempt.
enum class ShimState {
  kNone,      // never started, or gone before it recorded anything
  kAwaited,   // to be launched as soon as the user that it is for is known
  kFollowed,  // launched or adopted; its records come
  kSweeping,  // died; what it left is being killed
  kGone,      // ended, or swept
};

// One attempt as the reconciler sees it.
struct AttemptView {
  AttemptId id;
  // Desired.
  v1::Assignment::Desired desired = v1::Assignment::DESIRED_UNSPECIFIED;
  std::chrono::milliseconds grace{0};
  // Actual.
  ShimState shim = ShimState::kNone;
  bool prepared = false;
  bool stopped = false;
  // Stopped, but with processes that could not be killed yet.
  bool remains = false;
  // What the shim was told in this life of the agent.
  bool run_told = false;
  std::optional<std::chrono::milliseconds> stop_told;
  bool quit_told = false;
};

struct Action {
  enum class Kind {
    kLaunch,  // start a shim: check and reserve
    kRun,     // start the ranks
    kStop,    // stop the ranks within `grace`
    kFinish,  // nothing was ever started: tell that nothing is left
    kLose,    // to run, but unknown to this journal: tell that its ranks are lost
    kQuit,    // everything is told: the shim may exit
    kForget,  // released and nothing runs: delete
  };
  Kind kind;
  AttemptId id;
  std::chrono::milliseconds grace{0};
  friend bool operator==(const Action&, const Action&) = default;
};

// At most one action per attempt, in the order of `attempts`. Call again after they are done.
std::vector<Action> Reconcile(const std::vector<AttemptView>& attempts);

// True for actions that need the journal: they must not be done while it cannot be written.
// Stopping ranks is never withheld.
bool NeedsJournal(Action::Kind kind);

// True for actions that start something. They wait until the coordinator confirmed, in the current
// session, that it still wants it.
bool StartsSomething(Action::Kind kind);

}  // namespace muster
