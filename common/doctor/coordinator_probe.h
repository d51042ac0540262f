// Goes the way of a member to its coordinator step by step, with OpenSSL instead of gRPC, which
// says the same of every failure. Blocks for up to half a minute; changes nothing.
#pragma once

#include <string>

#include "common/base/clock.h"
#include "common/doctor/finding.h"
#include "common/trust/credentials.h"

namespace muster {

// Name, TCP, TLS and whose certificate the server shows, both clocks, what the coordinator knows of
// this member (revoked, superseded, version, ...), and whether gRPC is reached. Ends at the first
// step that fails.
Findings ProbeCoordinator(const Credentials& member, const std::string& address,
                          const std::string& version, const Clock& clock);

}  // namespace muster
