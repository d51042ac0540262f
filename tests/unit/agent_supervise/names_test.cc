#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/supervise/attempt_directory.h"
#include "agent/supervise/cgroup.h"
#include "agent/supervise/escape.h"

namespace muster {
namespace {

TEST(AttemptDirectoryName, ComesBackFromParsing) {
  const AttemptId id{JobId("train-7f3a"), 12};
  EXPECT_EQ(AttemptDirectoryName(id), "train-7f3a.12");
  EXPECT_EQ(ParseAttemptDirectoryName("train-7f3a.12"), id);
}

TEST(ParseAttemptDirectoryName, RefusesWhatItWouldNotMake) {
  for (const char* name : {"", ".", "..", ".1", "job", "job.", "job.01", "job.x", "job.1x",
                           "job.-1", "job.99999999999"}) {
    EXPECT_FALSE(ParseAttemptDirectoryName(name).has_value()) << name;
  }
}

TEST(RankLogName, ComesBackFromParsing) {
  EXPECT_EQ(RankLogName(12), "rank-00012.log");
  EXPECT_EQ(RankLogName(1234567), "rank-1234567.log");
  EXPECT_EQ(ParseRankLogName("rank-00012.log"), 12u);
  EXPECT_EQ(ParseRankLogName("rank-1234567.log"), 1234567u);
}

TEST(ParseRankLogName, RefusesWhatItWouldNotMake) {
  for (const char* name : {"", "rank-.log", "rank-12.log", "rank-00012.logx", "rank-0001x.log",
                           "events.rec", "rank-000000012.log"}) {
    EXPECT_FALSE(ParseRankLogName(name).has_value()) << name;
  }
}

TEST(EscapeFileName, KeepsPlainNames) { EXPECT_EQ(EscapeFileName("Node-1_a.b"), "Node-1_a.b"); }

TEST(EscapeFileName, EscapesWhatCouldLeaveTheDirectory) {
  EXPECT_EQ(EscapeFileName(".."), "%2E.");
  EXPECT_EQ(EscapeFileName("a/b"), "a%2Fb");
  EXPECT_EQ(EscapeFileName("100%"), "100%25");
  EXPECT_EQ(EscapeFileName("fe80::1"), "fe80%3A%3A1");
  EXPECT_EQ(EscapeFileName("\xc3\xa4"), "%C3%A4");
}

TEST(CgroupName, NamesJobAttemptAndNode) {
  EXPECT_EQ(CgroupName({JobId("j1"), 2}, NodeId("rack/1")), "muster-j1-2-rack%2F1");
}

TEST(ParseUnifiedCgroup, FindsTheVersionTwoLine) {
  EXPECT_EQ(ParseUnifiedCgroup("0::/system.slice/agent.service\n"), "/system.slice/agent.service");
  EXPECT_EQ(ParseUnifiedCgroup("8:pids:/\n4:memory:/x\n0::/\n"), "/");
}

TEST(ParseUnifiedCgroup, IsEmptyWithoutOne) {
  EXPECT_EQ(ParseUnifiedCgroup("8:pids:/\n4:memory:/x\n"), "");
  EXPECT_EQ(ParseUnifiedCgroup(""), "");
}

}  // namespace
}  // namespace muster
