// What is wrong with a job before anybody asks which nodes there are. Pure; usable from any thread.
// Specs come from any client, so nothing about them is taken for granted.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/v1/job_spec.pb.h"

namespace muster {

// Most ranks of one job.
inline constexpr uint64_t kMaxRanks = 1'000'000;

// What is wrong with a plan. Faults of the job outrank what nodes lack.
struct Faults {
  std::vector<std::string> job;
  std::vector<std::string> nodes;

  // Every reason, one per line: INVALID_ARGUMENT, or FAILED_PRECONDITION when only nodes are at
  // fault.
  absl::Status ToStatus() const;
};

// A host with its place in the user's file: "hostfile:3: node-7".
std::string Located(const v1::HostEntry& host);

// Adds everything that is wrong with `spec` itself to `faults.job`. `nodes`: how many nodes were
// given.
void CheckJob(const v1::JobSpec& spec, size_t nodes, Faults& faults);

}  // namespace muster
