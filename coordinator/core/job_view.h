// Shows jobs and nodes to people and programs (v1::Job, v1::Node). Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/core/job_index.h"
#include "coordinator/core/node_table.h"
#include "muster/v1/job.pb.h"
#include "muster/v1/node.pb.h"

namespace muster {

// Which parts of a job to show.
struct JobViewScope {
  bool nodes = true;
  bool ranks = true;
  // Nodes and ranks that changed after these revisions only; 0: all.
  uint64_t since_revision = 0;
  uint64_t since_volatile_revision = 0;
};

// The job as it is. `table` says which nodes are out of contact.
v1::Job ViewJob(const JobEntry& entry, const NodeTable& table, const JobViewScope& scope);

// The node as it is at `now`, with the jobs that it has something of.
v1::Node ViewNode(const NodeEntry& node, const NodeTable& table, const JobIndex& jobs,
                  TimePoint now);

}  // namespace muster
