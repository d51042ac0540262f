// The parts of Apply that deal with what nodes report (job_fold.cc), apart from those that deal
// with decisions (job_state.cc). Internal to coordinator/core; use Apply.
#pragma once

#include <string>

#include "coordinator/core/job_record.h"
#include "muster/internal/record.pb.h"

namespace muster {

// Folds a report of a node. The job was submitted.
void FoldReport(JobRecord& job, const internal::AgentReported& event, WallTime time);

// Folds the loss of a node. The job was submitted.
void FoldNodeLost(JobRecord& job, const internal::AttemptNodeLost& event);

// The newest attempt while it is not over, else null.
AttemptRecord* LiveAttempt(JobRecord& job);

// Warnings of a job, for the user; those of what may happen again and again leave room for others.
inline constexpr size_t kMostWarnings = 200;
inline constexpr size_t kMostRecurringWarnings = 100;

// Adds a warning; beyond `most` they are left out, and the last one says so.
void AddWarning(JobRecord& job, std::string warning, size_t most = kMostWarnings);

}  // namespace muster
