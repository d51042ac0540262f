// Translates what a shim recorded into events for the coordinator. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/core/launcher.h"
#include "agent/core/node_inspector.h"
#include "common/base/clock.h"
#include "muster/internal/journal.pb.h"
#include "muster/internal/shim.pb.h"

namespace muster {

// What one record of the shim means: its index and the events (without `seq`) that it stands for.
// `addresses` are proposed as rendezvous addresses unless the job names one; `inspection` is what
// was found before the launch. Ranks of which the
// last record `stopped` leaves no status become RankLost, never an invented status.
internal::JournalFacts FactsOf(const internal::JournalAttempt& attempt,
                               const internal::ShimRecord& record,
                               const std::vector<std::string>& addresses,
                               const Inspection& inspection = {});

// What is told about an attempt that was not launched: PrepareFailed with `problems`, then
// AttemptStopped.
internal::JournalFacts FactsOfRefusal(const internal::JournalAttempt& attempt,
                                      const std::vector<v1::Problem>& problems, WallTime now);

// What is told about an attempt whose shim died without its last record, after everything was
// killed. Wanted PREPARED and not prepared: PrepareFailed with `reason`. To be stopped,
// and never to be run: nothing. Else: RankLost for every rank without an exit record. Then
// RankLogClosed for the frame files of ranks that may have run, as far as they got, and
// AttemptStopped.
internal::JournalFacts FactsOfDeath(const internal::JournalAttempt& attempt,
                                    const std::string& reason, const Launcher::SweepResult& swept,
                                    WallTime now);

// What is told about an attempt of which nothing was started under this journal, and never will be:
// AttemptStopped, and before it RankLost with `lost_reason` for all ranks unless that is empty.
internal::JournalFacts FactsOfNothing(const internal::JournalAttempt& attempt,
                                      const std::string& lost_reason, WallTime now);

// Which addresses of the rendezvous the node can reach.
internal::JournalFacts FactsOfProbe(const internal::JournalAttempt& attempt,
                                    std::vector<v1::ProbedAddress> answers, WallTime now);

}  // namespace muster
