// The variables that the launcher owns for one rank. Pure; usable from any thread. `MASTER_ADDR`
// and `MASTER_PORT` are not here: they are known when all nodes are prepared and come with the
// rendezvous.
#pragma once

#include <cstdint>
#include <span>

#include "muster/v1/types.pb.h"

namespace muster {

// Where a rank stands.
struct RankPlace {
  uint32_t rank = 0;
  uint32_t local_rank = 0;
  uint32_t world_size = 0;
  uint32_t local_world_size = 0;
  uint32_t node_index = 0;
  uint32_t node_count = 0;
  uint32_t slot = 0;
  // Module ids of all cards that the job has on the node, in order of local rank. Empty when slots
  // are plain numbers and no variable about cards is to be set.
  std::span<const uint32_t> modules;
  // True when the user chose the slot by number.
  bool slot_was_chosen = false;
};

// Fills `rank`: numbers and environment. Names and meaning are those of torchrun and of the
// DeepSpeed launcher, plus `ID` and the module variables that the Gaudi bridge reads at import.
void SetRank(const RankPlace& place, v1::RankSpec& rank);

}  // namespace muster
