// Which slots of a node a job gets. Pure; usable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/plan/job_check.h"
#include "coordinator/plan/plan_job.h"

namespace muster {

// "0-3,6" for 0, 1, 2, 3, 6.
std::string RangesText(const std::vector<uint32_t>& slots);

// " (module 3 has status Disabled)": what the node told of its cards, for messages; empty: nothing.
std::string BecauseOf(const NodeSlots& node);

// The slots that ranks of the job occupy on the node of `host`, ascending. What the node lacks is
// added to `faults`; the result is then only good for further checks.
std::vector<uint32_t> ChooseSlots(const v1::HostEntry& host, const NodeSlots& node, Faults& faults);

}  // namespace muster
