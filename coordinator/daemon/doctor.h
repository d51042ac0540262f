// `coordinator doctor`: what keeps a coordinator from serving, or may do so soon. Looks at the
// state directory and the ports, whether a coordinator runs or not; changes nothing. Blocks.
#pragma once

#include "common/doctor/finding.h"
#include "coordinator/daemon/service.h"

namespace muster {

// `options`: as of `serve`.
Findings ExamineCoordinator(const ServiceOptions& options);

}  // namespace muster
