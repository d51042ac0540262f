// Programs that two nodes run together to test what is between them, each pair as an ordinary job:
// nothing of it can outlive the command and the coordinator unseen, and its output is kept.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/cli/check_view.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/reporter.h"
#include "muster/v1/job_spec.pb.h"

namespace muster {

// A job on two hosts that runs `script` with /bin/sh once per rank; `base` gives user and
// environment. Pure.
v1::JobSpec PairJob(std::string_view name, const v1::HostEntry& first, const v1::HostEntry& second,
                    std::string_view script, std::chrono::seconds limit, const v1::JobSpec& base);

using PairJobFor = std::function<v1::JobSpec(const v1::HostEntry&, const v1::HostEntry&)>;

// Runs the pairs of `rounds` rounds (pairing.h), those of a round at once. A pair passes when its
// job succeeds. `check`: what results are called. Blocks.
std::vector<PairResult> RunPairs(Client& client, const std::vector<v1::HostEntry>& hosts,
                                 uint32_t rounds, std::string_view check, const PairJobFor& job_for,
                                 Reporter& reporter);

}  // namespace muster
