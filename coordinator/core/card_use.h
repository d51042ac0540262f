// Who has the cards of a node, as far as this coordinator knows. Pure; lives on the loop thread.
#pragma once

#include <string>

#include "coordinator/core/job_index.h"
#include "coordinator/core/node_table.h"
#include "coordinator/plan/card_choice.h"

namespace muster {

// "alice, job 7f3a (llama)": who submitted it, and what the job is called.
std::string HolderText(const JobEntry& entry);

// Cards of jobs that run there since `boot_id` are taken. Those of jobs that are ending, and those
// that processes held when the node last told, are doubtful.
CardUse UseOfCards(const NodeEntry& node, const std::string& boot_id, const JobIndex& jobs);

}  // namespace muster
