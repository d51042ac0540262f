// Says whether an agent may join. Pure; usable from any thread.
#pragma once

#include <absl/status/status.h>

#include <optional>
#include <string_view>

#include "common/base/ids.h"
#include "muster/v1/agent.pb.h"

namespace muster {

// Longest identifier of a node, an agent instance, a boot or a journal.
inline constexpr size_t kMaxIdBytes = 255;

// FAILED_PRECONDITION: another cluster, or another major version of the protocol.
// INVALID_ARGUMENT: an identifier is missing or malformed; the message names every one.
// PERMISSION_DENIED: `authenticated` is another node than the one that Hello names.
absl::Status CheckHello(const v1::Hello& hello, std::string_view cluster_id,
                        const std::optional<NodeId>& authenticated);

}  // namespace muster
