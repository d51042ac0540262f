// Lists of ranks and hosts as people type and read them. Pure.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/v1/job.pb.h"

namespace muster {

// Ranks of "0-7,9", ascending and each once. Error: what is wrong with the text.
absl::StatusOr<std::vector<uint32_t>> ParseRanks(std::string_view text);

// "0-7,9" for an ascending list; "" for an empty one.
std::string FormatRanks(std::span<const uint32_t> ranks);

// "a, b, c", and "a, b and 5 more" past `limit` names (0: all of them).
std::string ListNames(std::span<const std::string> names, size_t limit = 0);

// Host of a rank as the hostfile has it; "?" when the job does not say.
std::string HostOf(const v1::Job& job, uint32_t rank);

// Ranks of the node with this index, ascending.
std::vector<uint32_t> RanksOf(const v1::Job& job, uint32_t node_index);

// "1 rank", "3 ranks".
std::string Count(uint64_t count, std::string_view noun);

}  // namespace muster
