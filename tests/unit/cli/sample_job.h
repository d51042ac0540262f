// A job to show: 4 ranks on 2 nodes, built up as tests need it. Values only.
#pragma once

#include <string>

#include "muster/v1/job.pb.h"

namespace muster::testing {

// PENDING, created at 1000 s: ranks 0, 1 on node-1 and 2, 3 on node-2.
inline v1::Job SampleJob() {
  v1::Job job;
  job.set_job_id("j-demo");
  job.set_state(v1::Job::PENDING);
  job.set_world_size(4);
  job.set_attempt(1);
  job.mutable_create_time()->set_seconds(1000);
  for (uint32_t n = 0; n < 2; ++n) {
    v1::JobNode* node = job.add_nodes();
    node->set_index(n);
    node->set_host("node-" + std::to_string(n + 1));
    node->set_phase(v1::JobNode::WAITING);
    for (uint32_t local = 0; local < 2; ++local) {
      v1::JobRank* rank = job.add_ranks();
      rank->set_rank(2 * n + local);
      rank->set_node_index(n);
      rank->set_local_rank(local);
      rank->set_slot(local);
      rank->set_state(v1::JobRank::WAITING);
    }
  }
  return job;
}

inline v1::Job RunningJob() {
  v1::Job job = SampleJob();
  job.set_state(v1::Job::RUNNING);
  job.mutable_start_time()->set_seconds(1000);
  job.mutable_start_time()->set_nanos(250'000'000);
  for (v1::JobNode& node : *job.mutable_nodes()) {
    node.set_node_id(node.host());
    node.set_phase(v1::JobNode::RUNNING);
  }
  for (v1::JobRank& rank : *job.mutable_ranks()) {
    rank.set_state(v1::JobRank::RUNNING);
    rank.set_pid(static_cast<int32_t>(100 + rank.rank()));
  }
  return job;
}

inline v1::Job SucceededJob() {
  v1::Job job = RunningJob();
  job.set_state(v1::Job::SUCCEEDED);
  job.set_cause(v1::Job::NONE);
  job.mutable_end_time()->set_seconds(1062);
  for (v1::JobRank& rank : *job.mutable_ranks()) {
    rank.set_state(v1::JobRank::EXITED);
    rank.mutable_status()->set_exit_code(0);
    rank.set_log_closed(true);
  }
  return job;
}

// Rank 2 ended with `status`, the others were stopped.
inline v1::Job FailedJob(const v1::ExitStatus& status, int32_t exit_code) {
  v1::Job job = RunningJob();
  job.set_state(v1::Job::FAILED);
  job.set_cause(v1::Job::RANK_FAILED);
  job.set_exit_code(exit_code);
  job.mutable_end_time()->set_seconds(1005);
  job.set_stopped_ranks(3);
  for (v1::JobRank& rank : *job.mutable_ranks()) {
    rank.set_state(v1::JobRank::EXITED);
    rank.mutable_status()->set_signal(15);
  }
  *job.mutable_ranks(2)->mutable_status() = status;
  v1::Failure* failure = job.mutable_first_failure();
  failure->set_has_rank(true);
  failure->set_rank(2);
  failure->set_host("node-2");
  failure->set_pid(102);
  *failure->mutable_status() = status;
  return job;
}

inline v1::ExitStatus Code(int code) {
  v1::ExitStatus status;
  status.set_exit_code(code);
  return status;
}

inline v1::ExitStatus Killed(int signal) {
  v1::ExitStatus status;
  status.set_signal(signal);
  return status;
}

}  // namespace muster::testing
