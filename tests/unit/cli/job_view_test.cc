#include "coordinator/cli/job_view.h"

#include <gtest/gtest.h>

#include "tests/unit/cli/sample_job.h"

namespace muster {
namespace {

TEST(JobView, MergesOnlyWhatChanged) {
  JobView view;
  EXPECT_FALSE(view.known());
  view.Apply(testing::SampleJob());
  v1::Job update;
  update.set_job_id("j-demo");
  update.set_attempt(1);
  update.set_state(v1::Job::RUNNING);
  v1::JobRank* rank = update.add_ranks();
  rank->set_rank(3);
  rank->set_node_index(1);
  rank->set_state(v1::JobRank::RUNNING);
  v1::JobNode* node = update.add_nodes();
  node->set_index(1);
  node->set_host("node-2");
  node->set_phase(v1::JobNode::RUNNING);
  view.Apply(update);
  EXPECT_EQ(view.job().state(), v1::Job::RUNNING);
  ASSERT_EQ(view.job().ranks_size(), 4);
  EXPECT_EQ(view.job().ranks(0).state(), v1::JobRank::WAITING);
  EXPECT_EQ(view.job().ranks(3).state(), v1::JobRank::RUNNING);
  ASSERT_EQ(view.job().nodes_size(), 2);
  EXPECT_EQ(view.job().nodes(0).phase(), v1::JobNode::WAITING);
  EXPECT_EQ(view.job().nodes(1).phase(), v1::JobNode::RUNNING);
}

TEST(JobView, AddsRanksThatWereNotPlannedAtFirst) {
  JobView view;
  v1::Job bare = testing::SampleJob();
  bare.clear_ranks();
  view.Apply(bare);
  view.Apply(testing::RunningJob());
  EXPECT_EQ(view.job().ranks_size(), 4);
}

TEST(JobView, NewStreamReplacesEverything) {
  JobView view;
  view.Apply(testing::RunningJob());
  view.Restart();
  v1::Job other = testing::SampleJob();
  other.mutable_ranks()->RemoveLast();
  view.Apply(other);
  EXPECT_EQ(view.job().ranks_size(), 3);
  EXPECT_EQ(view.job().state(), v1::Job::PENDING);
}

}  // namespace
}  // namespace muster
