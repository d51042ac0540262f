#include "coordinator/plan/rank_env.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

namespace muster {
namespace {

void Set(v1::RankSpec& rank, const char* name, std::string value) {
  v1::EnvPair& pair = *rank.add_env();
  pair.set_name(name);
  pair.set_value(std::move(value));
}

void Set(v1::RankSpec& rank, const char* name, uint32_t value) {
  Set(rank, name, fmt::format_int(value).str());
}

}  // namespace

void SetRank(const RankPlace& place, v1::RankSpec& rank) {
  rank.set_rank(place.rank);
  rank.set_local_rank(place.local_rank);
  rank.set_slot(place.slot);
  rank.mutable_env()->Reserve(14);
  Set(rank, "RANK", place.rank);
  Set(rank, "LOCAL_RANK", place.local_rank);
  Set(rank, "WORLD_SIZE", place.world_size);
  Set(rank, "LOCAL_WORLD_SIZE", place.local_world_size);
  // DeepSpeed's and Horovod's names for the same.
  Set(rank, "LOCAL_SIZE", place.local_world_size);
  Set(rank, "CROSS_RANK", place.node_index);
  Set(rank, "CROSS_SIZE", place.node_count);
  // torchrun's names for the same.
  Set(rank, "GROUP_RANK", place.node_index);
  Set(rank, "GROUP_WORLD_SIZE", place.node_count);
  Set(rank, "NODE_RANK", place.node_index);
  // Part of the names of Synapse's log files.
  Set(rank, "ID", place.rank);
  if (place.modules.empty()) return;
  // Without these two the bridge takes LOCAL_RANK for the module id, which opens a card of another
  // job.
  Set(rank, "HABANA_VISIBLE_MODULES", fmt::format("{}", fmt::join(place.modules, ",")));
  // The bridge leaves a single process free to take any card that it may see.
  if (place.world_size > 1 || place.slot_was_chosen) Set(rank, "HLS_MODULE_ID", place.slot);
}

}  // namespace muster
