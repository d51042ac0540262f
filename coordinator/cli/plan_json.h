// Writes a plan as JSON, the output of `--dry-run`. Pure; usable from any thread.
#pragma once

#include <span>
#include <string>

#include "muster/v1/job.pb.h"

namespace muster {

// One JSON object, indented, with a final newline:
//
//     nodes[]: host, slots (how many), node_id when known; cwd, python, env where they differ from
//     the job's ranks[]: rank, local_rank, node (the host), device (module id of the card, else
//     slot number) world_size, master_addr and master_port (null when they are chosen at the start)
//     name, argv, cwd, env (name to text, secrets masked), warnings[]
//
// `env` is the environment of every rank without its rank variables; `${NAME}` is resolved on the
// node. Bytes that are not UTF-8 are replaced. `warnings` go in front of those of the plan.
std::string PlanToJson(const v1::JobSpec& spec, const v1::Plan& plan,
                       std::span<const std::string> warnings);

}  // namespace muster
