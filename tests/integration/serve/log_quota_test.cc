// Output that is written while the coordinator does not take it: the first and the newest are kept,
// the rest is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/integration/sandbox/cluster.h"
#include "tests/process/rank_probe/seeded_bytes.h"

namespace muster {
namespace {

using testing::Cluster;
using testing::CommandRun;
using ::testing::HasSubstr;
using testing::SeededString;

constexpr uint64_t kQuota = 4 << 20;
// What is dropped at once: a sixteenth of the quota and what one read brings, at most.
constexpr uint64_t kSegmentBytes = kQuota / 16 + (512 << 10);

class LogQuota : public ::testing::Test {
 protected:
  LogQuota() : cluster_(1, 1), box_(cluster_.box()) {
    box_.Write("job.yaml", "hostfile: hosts\nlog_quota: 4MiB\ngrace: 60s\ncommand: [" +
                               testing::Sandbox::Programs() +
                               "/rank_probe, --bytes, 1, 1000000, 1, --touch, first, "
                               "--wait-file, go, --bytes, 1, 30000000, 2, --touch, written, "
                               "--wait-file, end, --bytes, 1, 1000, 3]\n");
  }

  void ExpectFirstAndNewest(const std::string& job) {
    const std::string all =
        SeededString(1, 1'000'000) + SeededString(2, 30'000'000) + SeededString(3, 1000);
    // Ends when everything has arrived, which may be after the job.
    CommandRun follow = box_.Run({"logs", job, "-f", "--raw"});
    EXPECT_EQ(follow.Wait(), 0) << follow.err();
    const std::string kept = follow.out();
    const auto status =
        nlohmann::json::parse(box_.Run({"status", job, "-o", "json"}).out(), nullptr, false);
    ASSERT_FALSE(status.is_discarded());
    const auto& log = status["ranks"][0]["log"];
    EXPECT_EQ(log["written_bytes"], all.size());
    const uint64_t dropped = log["dropped_bytes"];
    EXPECT_GT(log["stored_bytes"], all.size()) << "holes are stored as they are";
    ASSERT_EQ(kept.size() + dropped, all.size());
    const auto first = static_cast<uint64_t>(
        std::mismatch(kept.begin(), kept.end(), all.begin()).first - kept.begin());
    EXPECT_GT(first, kQuota / 2 - kSegmentBytes);
    // The beginning may end one segment late, and one segment too many may have been dropped.
    EXPECT_GT(kept.size() - first, kQuota / 2 - 2 * kSegmentBytes);
    EXPECT_TRUE(kept.substr(first) == all.substr(first + dropped));
    // People see one line for all of it.
    EXPECT_THAT(box_.Run({"logs", job}).out(),
                HasSubstr("(muster: output lost here: " + std::to_string(dropped) +
                          " bytes of stdout, 0 bytes of stderr)"));
    EXPECT_THAT(box_.Run({"status", job}).out(), HasSubstr("DROPPED"));
  }

  Cluster cluster_;
  testing::Sandbox& box_;
};

TEST_F(LogQuota, KeepsTheFirstAndTheNewestOutputWhileTheCoordinatorIsAway) {
  cluster_.Start();
  const std::string job = cluster_.Submit();
  ASSERT_TRUE(box_.WaitFor("first"));
  cluster_.KillCoordinator();
  box_.Write("go", "");
  ASSERT_TRUE(box_.WaitFor("written", testing::Seconds(60)));
  cluster_.StartCoordinator();
  cluster_.AwaitNodes(1);
  box_.Write("end", "");
  EXPECT_EQ(cluster_.WaitJob(job), 0);
  ExpectFirstAndNewest(job);
}

// Here output is on its way to the coordinator while what is behind it is dropped.
TEST_F(LogQuota, KeepsTheFirstAndTheNewestOutputWhileTheCoordinatorStandsStill) {
  cluster_.Start();
  const std::string job = cluster_.Submit();
  ASSERT_TRUE(box_.WaitFor("first"));
  cluster_.coordinator().Send(SIGSTOP);
  box_.Write("go", "");
  const bool written = box_.WaitFor("written", testing::Seconds(60));
  cluster_.coordinator().Send(SIGCONT);
  ASSERT_TRUE(written);
  cluster_.AwaitNodes(1);
  box_.Write("end", "");
  EXPECT_EQ(cluster_.WaitJob(job), 0);
  ExpectFirstAndNewest(job);
}

}  // namespace
}  // namespace muster
