// How an attempt came out, once every node of it is settled. Pure.
#pragma once

#include "coordinator/core/job_record.h"
#include "muster/internal/record.pb.h"
#include "muster/v1/types.pb.h"

namespace muster {

// Exit statuses of Muster's own, as people see them (docs/reference.md, "Exit status").
inline constexpr int kExitNotStarted = 120;
inline constexpr int kExitNodeLost = 121;
inline constexpr int kExitTimeLimit = 124;
inline constexpr int kExitInternal = 125;
// The container engine of a node could not start a rank: what engines end with themselves.
inline constexpr int kExitEngineFailed = 125;
inline constexpr int kExitCannotExecute = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitSignalBase = 128;

// Status of a job that ends because of this rank: its code, 128 + its signal, 127 when the program
// was not found, 126 when it could not be executed. Never 0.
int ExitCodeOf(const v1::ExitStatus& status);

// The outcome of the newest attempt; every node of it is settled.
//
// * Success: every rank has an exit record and it is 0, and nothing is left anywhere.
// * The user's wish: CANCELLED with 128 + the signal by which it was made, unless the job's fate
// was
//   decided before.
// * Otherwise the first failure, else the reason of the stop.
// * Processes that cannot be killed make any outcome a failure; they are named.
internal::Outcome OutcomeOf(const JobRecord& job);

// The outcome of a job that the user ended before anything of an attempt was left to stop.
internal::Outcome CancelledOutcome(const CancelWish& wish);

// True when the restart policy of the job wants another attempt after this outcome.
bool WantsAnotherAttempt(const JobRecord& job, const internal::Outcome& outcome);

}  // namespace muster
