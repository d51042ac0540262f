// Events and attempts as words for the agent's log: `key=value`, never environment or output. Pure.
#pragma once

#include <string>

#include "common/base/ids.h"
#include "muster/v1/agent.pb.h"

namespace muster {

// `job=j42 attempt=1`.
std::string Describe(const AttemptId& id);
// `rank exited rank=7 signal=SIGKILL`.
std::string DescribeEvent(const v1::Event& event);

}  // namespace muster
