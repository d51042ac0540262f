// The exit statuses of the program itself, and the one a job gives to the command that followed it.
// Pure.
#pragma once

#include <absl/status/status.h>

#include "muster/v1/job.pb.h"

namespace muster {

inline constexpr int kExitUsage = 2;            // bad usage or input
inline constexpr int kExitNotStarted = 120;     // a node missing, a check or prepare failed
inline constexpr int kExitNodeLost = 121;       // a node or its ranks lost
inline constexpr int kExitNoCoordinator = 122;  // nobody to talk to
inline constexpr int kExitTimeLimit = 124;      // the job's time limit
inline constexpr int kExitBug = 125;            // a mistake in Muster
inline constexpr int kExitSignalBase = 128;     // plus the signal that ended it

// True for the states that a job never leaves.
bool IsTerminal(const v1::Job& job);

// Exit status for a job that has ended. 0 only for success with every rank's record there and 0: a
// record that claims success otherwise, or failure with status 0, gives `kExitBug`.
int ExitStatusOf(const v1::Job& job);

// The same for a job of a list, which comes without its ranks: what the coordinator says of it.
int ExitStatusInList(const v1::Job& job);

// Exit status for a call that failed: no coordinator, bad input, or a bug.
int ExitStatusOf(const absl::Status& status);

}  // namespace muster
