// What the agent did by order of its coordinator, for the record that the node keeps of it. Values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"

namespace muster {

struct Deed {
  enum class Kind {
    // Ranks are about to be started; `detail`: the image, when that is in containers.
    kLaunch,
    // ... or not; `detail` says why.
    kRefuseLaunch,
    // The coordinator has the attempt stopped; `detail`: the grace.
    kStop,
    // The coordinator has ranks signalled; `detail`: the signal.
    kSignal,
    // Somebody has the node checked, which looks at what the user has and asks the interpreter for
    // its version.
    kCheck,
  };

  Kind kind = Kind::kLaunch;
  AttemptId attempt;
  // For whom, as the coordinator tells: `alice`. Empty: it does not say.
  std::string submitter;
  // What the ranks run as; empty: the agent's own user. As asked where it was refused.
  std::string user;
  // Program and arguments without what differs from rank to rank, and where they start. Never their
  // environment.
  std::vector<std::string> argv;
  std::string directory;
  // Global ranks of this node, or those that are signalled.
  std::vector<uint32_t> ranks;
  std::string detail;
};

}  // namespace muster
