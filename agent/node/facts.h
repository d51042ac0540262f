// What this node is: names, addresses, processors, memory, slots, boot. Read once when the agent
// starts; it owns nothing and keeps no state. Blocks at most as long as
// FactsOptions::resolver_limit.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/v1/agent.pb.h"

namespace muster {

struct FactsOptions {
  // Slots that the node offers.
  uint32_t slots = 8;
  // When not empty, the addresses that the node reports, and no others.
  std::vector<std::string> addresses;
  // How long the resolver may take to say the fully qualified name; 0: it is not asked.
  std::chrono::milliseconds resolver_limit{0};
  // Put in front of /proc and /etc paths; a test gives a directory of its own.
  std::string root;
};

// A number of slots. Pure.
absl::StatusOr<uint32_t> ParseSlots(std::string_view text);

// OK when `address` is a numeric IPv4 or IPv6 address. Pure.
absl::Status CheckNumericAddress(std::string_view address);

// The facts. What cannot be found out is left empty or 0.
v1::NodeFacts CollectFacts(const FactsOptions& options);

// Identifies the current boot of the kernel; an error when /proc does not say.
absl::StatusOr<std::string> ReadBootId(const std::string& root = "");

}  // namespace muster
