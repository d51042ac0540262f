#include "coordinator/cli/job_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/cli/sample_job.h"

namespace muster {
namespace {

using nlohmann::json;

TEST(JobToJson, KeepsCauseAndStatusApart) {
  const json job = json::parse(JobToJson(testing::FailedJob(testing::Killed(9), 137)));
  EXPECT_EQ(job["state"], "failed");
  EXPECT_EQ(job["cause"], "rank-failed");
  EXPECT_EQ(job["exit_status"], 137);
  EXPECT_EQ(job["first_failure"]["rank"], 2);
  EXPECT_EQ(job["first_failure"]["host"], "node-2");
  EXPECT_EQ(job["first_failure"]["signal"], 9);
  EXPECT_EQ(job["first_failure"]["signal_name"], "SIGKILL");
  EXPECT_TRUE(job["first_failure"]["exit_code"].is_null());
  EXPECT_EQ(job["ranks"].size(), 4u);
  EXPECT_EQ(job["ranks"][3]["host"], "node-2");
  EXPECT_EQ(job["stopped_ranks"], 3);
}

TEST(JobToJson, SaysNullForWhatIsNotKnown) {
  const json job = json::parse(JobToJson(testing::SampleJob()));
  EXPECT_TRUE(job["exit_status"].is_null());
  EXPECT_TRUE(job["cause"].is_null());
  EXPECT_TRUE(job["start_time"].is_null());
  EXPECT_TRUE(job["first_failure"].is_null());
  EXPECT_EQ(job["create_time"], "1970-01-01T00:16:40Z");
}

TEST(JobToJson, SurvivesTextThatIsNoUtf8) {
  v1::Job job = testing::SampleJob();
  job.set_name("na\xc3\xafve");
  EXPECT_EQ(json::parse(JobToJson(job))["name"], "na\xc3\xafve");
}

TEST(JobToJson, FitsOnOneLine) {
  const std::string line = JobToJson(testing::SampleJob(), -1);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST(LogLineToJson, ReplacesBytesThatAreNoText) {
  const json line =
      json::parse(LogLineToJson({1'500'000'000, 3, LogStream::kStderr, "a\xff\"b"}, "node-2"));
  EXPECT_EQ(line["rank"], 3);
  EXPECT_EQ(line["stream"], "stderr");
  EXPECT_EQ(line["time"], "1970-01-01T00:00:01.500Z");
  EXPECT_EQ(line["text"], "a\xef\xbf\xbd\"b");
}

TEST(NodesToJson, ListsNodes) {
  v1::ListNodesResponse nodes;
  nodes.add_nodes()->set_node_id("node-1");
  const json list = json::parse(NodesToJson(nodes));
  EXPECT_EQ(list["nodes"][0]["node_id"], "node-1");
}

}  // namespace
}  // namespace muster
