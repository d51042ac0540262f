// The job that runs hccl_demo (the collective test of Habana) on a pair of nodes. Pure.
#pragma once

#include <string>

#include "coordinator/cli/pair_jobs.h"

namespace muster {

// It has all ranks of both hosts, so that their cards are its own; the first rank of each host runs
// run_hccl_demo.py in `folder`, which starts one process per card by itself, and the others end at
// once. It succeeds when the demo ended with 0 on both, told of no error, and rank 0 has printed a
// bandwidth. `base` gives user and environment.
v1::JobSpec DemoJob(const v1::HostEntry& first, const v1::HostEntry& second,
                    const std::string& folder, const v1::JobSpec& base);

}  // namespace muster
