// Runs hccl_demo (the collective test of Habana) between pairs of nodes, each pair as an ordinary
// job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/cli/check_view.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/reporter.h"
#include "muster/v1/job_spec.pb.h"

namespace muster {

// The job of one pair. It has all ranks of both hosts, so that their cards are its own; the first
// rank of each host runs run_hccl_demo.py in `folder`, which starts one process per card by itself,
// and the others end at once. It succeeds when the demo ended with 0 on both, told of no error, and
// rank 0 has printed a bandwidth. Pure. `base` gives user and environment.
v1::JobSpec DemoJob(const v1::HostEntry& first, const v1::HostEntry& second,
                    const std::string& folder, const v1::JobSpec& base);

// Runs the pairs of `rounds` rounds (pairing.h), those of a round at once. Blocks.
std::vector<DemoResult> RunHcclDemo(Client& client, const std::vector<v1::HostEntry>& hosts,
                                    uint32_t rounds, const std::string& folder,
                                    const v1::JobSpec& base, Reporter& reporter);

}  // namespace muster
