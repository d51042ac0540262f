#include "coordinator/cli/job_view.h"

#include <utility>

namespace muster {
namespace {

v1::JobRank* FindRank(v1::Job& job, uint32_t rank) {
  // Ranks usually stand at their own index.
  if (rank < static_cast<uint32_t>(job.ranks_size())) {
    v1::JobRank* candidate = job.mutable_ranks(static_cast<int>(rank));
    if (candidate->rank() == rank) return candidate;
  }
  for (v1::JobRank& candidate : *job.mutable_ranks()) {
    if (candidate.rank() == rank) return &candidate;
  }
  return job.add_ranks();
}

v1::JobNode* FindNode(v1::Job& job, uint32_t index) {
  if (index < static_cast<uint32_t>(job.nodes_size())) {
    v1::JobNode* candidate = job.mutable_nodes(static_cast<int>(index));
    if (candidate->index() == index) return candidate;
  }
  for (v1::JobNode& candidate : *job.mutable_nodes()) {
    if (candidate.index() == index) return &candidate;
  }
  return job.add_nodes();
}

}  // namespace

void JobView::Apply(const v1::Job& update) {
  known_ = true;
  if (fresh_) {
    fresh_ = false;
    job_ = update;
    return;
  }
  v1::Job next = update;
  next.clear_ranks();
  next.clear_nodes();
  next.mutable_ranks()->Swap(job_.mutable_ranks());
  next.mutable_nodes()->Swap(job_.mutable_nodes());
  for (const v1::JobRank& rank : update.ranks()) *FindRank(next, rank.rank()) = rank;
  for (const v1::JobNode& node : update.nodes()) *FindNode(next, node.index()) = node;
  job_.Swap(&next);
}

}  // namespace muster
