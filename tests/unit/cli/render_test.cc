#include "coordinator/cli/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/cli/job_json.h"
#include "tests/unit/cli/sample_job.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RenderTable, AlignsAndLeavesNoTrailingBlanks) {
  EXPECT_EQ(RenderTable({{"A", "LONG", "C"}, {"xyz", "1", ""}}), "A    LONG  C\nxyz  1\n");
}

TEST(RenderJob, ShowsRanksAndNodes) {
  const std::string text = RenderJob(testing::RunningJob(), 1010, 64);
  EXPECT_THAT(text, HasSubstr("state        running\n"));
  EXPECT_THAT(text, HasSubstr("node-2  running  2,3"));
  EXPECT_THAT(text, HasSubstr("3     node-2  103  running  -"));
}

TEST(RenderJob, ShowsWhatBecameOfTheOutput) {
  v1::Job job = testing::RunningJob();
  EXPECT_THAT(RenderJob(job, 1010, 64), Not(HasSubstr("WRITTEN")));
  v1::JobRank& rank = *job.mutable_ranks(0);
  rank.set_stored_log_bytes(5000);
  EXPECT_THAT(RenderJob(job, 1010, 64),
              ::testing::ContainsRegex("STATUS +WRITTEN +DROPPED +STORED\n.* - +- +5.0 kB\n"));
  rank.set_log_closed(true);
  rank.set_written_bytes(7000);
  rank.set_dropped_bytes(20);
  EXPECT_THAT(RenderJob(job, 1010, 64), ::testing::ContainsRegex(" 7.0 kB +20 bytes +5.0 kB\n"));
}

TEST(RenderJob, TellsManyRanksInNumbers) {
  const v1::Job job = testing::FailedJob(testing::Code(5), 5);
  const std::string text = RenderJob(job, 1010, 1);
  EXPECT_THAT(text, HasSubstr("3 ranks exited SIGTERM\n1 rank exited 5\n"));
  EXPECT_THAT(text, HasSubstr("\n2     node-2  102  exited  5\n"));
  EXPECT_THAT(text, Not(HasSubstr("\n1     node-1")));
}

TEST(RenderJobs, HasOneLineEach) {
  const std::vector<v1::Job> jobs = {testing::SucceededJob(), testing::RunningJob()};
  const std::string text = RenderJobs(jobs, 1100);
  EXPECT_THAT(text, HasSubstr("j-demo  -     succeeded  0       4"));
  EXPECT_THAT(text, HasSubstr("j-demo  -     running    -       4"));
}

TEST(RenderJobs, TellsTheStatusOfJobsThatComeWithoutRanks) {
  v1::Job good = testing::SucceededJob();
  v1::Job bad = testing::FailedJob(testing::Code(7), 7);
  good.clear_ranks();
  bad.clear_ranks();
  const std::string text = RenderJobs(std::vector<v1::Job>{good, bad}, 1100);
  EXPECT_THAT(text, HasSubstr("j-demo  -     succeeded  0       4"));
  EXPECT_THAT(text, HasSubstr("failed     7       4"));
  EXPECT_THAT(JobsToJson(std::vector<v1::Job>{good}), HasSubstr("\"exit_status\": 0,"));
}

TEST(RenderNodes, ShowsSlotsAndJobs) {
  v1::ListNodesResponse nodes;
  v1::Node* node = nodes.add_nodes();
  node->set_node_id("node-1");
  node->set_state(v1::Node::ALIVE);
  node->mutable_facts()->add_slots(0);
  node->mutable_facts()->add_addresses("192.0.2.1");
  node->mutable_last_seen()->set_seconds(95);
  node->add_job_ids("j-demo");
  EXPECT_THAT(RenderNodes(nodes, 100),
              AllOf(HasSubstr("node-1  alive"), HasSubstr("192.0.2.1  5 s ago  j-demo")));
}

TEST(DescribeChanges, TellsOnlyWhatIsNew) {
  const v1::Job before = testing::RunningJob();
  v1::Job after = before;
  EXPECT_THAT(DescribeChanges(before, after), ElementsAre());
  after.mutable_ranks(1)->set_state(v1::JobRank::EXITED);
  after.mutable_ranks(1)->mutable_status()->set_exit_code(5);
  after.set_state(v1::Job::STOPPING);
  after.set_reason("rank 1 failed");
  after.mutable_nodes(0)->set_phase(v1::JobNode::STOPPING);
  EXPECT_THAT(DescribeChanges(before, after),
              ElementsAre("stopping: rank 1 failed", "node node-1 stopping",
                          "rank 1 on node-1 (pid 101) exited with code 5"));
}

}  // namespace
}  // namespace muster
