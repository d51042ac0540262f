// The check of an audit log that both programs make. It changes nothing.
#pragma once

#include <string>

#include "common/doctor/finding.h"

namespace muster {

// Every digest of the log at `path`, and whether it can be written.
Finding CheckAudit(const std::string& path);

}  // namespace muster
