#include <gtest/gtest.h>

#include <string>

#include "agent/supervise/sweep.h"

namespace muster {
namespace {

using std::string_literals::operator""s;

const AttemptId kAttempt{JobId("j1"), 2};
const NodeId kNode("n1");

TEST(ParseProcessStat, ReadsTheFieldsThatMatter) {
  ProcessStat stat;
  ASSERT_TRUE(ParseProcessStat(
      "4242 (python3) S 17 4242 4240 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2\n", &stat));
  EXPECT_EQ(stat.pid, 4242);
  EXPECT_EQ(stat.name, "python3");
  EXPECT_EQ(stat.state, 'S');
  EXPECT_EQ(stat.parent, 17);
  EXPECT_EQ(stat.session, 4240);
  EXPECT_EQ(stat.start_ticks, 987654u);
}

TEST(ParseProcessStat, IsNotFooledByTheName) {
  ProcessStat stat;
  ASSERT_TRUE(
      ParseProcessStat("7 (a) Z 1 (b) D 5 6 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 33 0\n", &stat));
  EXPECT_EQ(stat.name, "a) Z 1 (b");
  EXPECT_EQ(stat.state, 'D');
  EXPECT_EQ(stat.parent, 5);
  EXPECT_EQ(stat.session, 9);
  EXPECT_EQ(stat.start_ticks, 33u);
}

TEST(ParseProcessStat, RefusesWhatIsCutShort) {
  ProcessStat stat;
  for (const char* text :
       {"", "7", "7 (a", "7 (a)", "7 (a) S", "7 (a) S 1 2 3 4", ") (", "x (a) S 1 2 3 4 5 6 7"}) {
    EXPECT_FALSE(ParseProcessStat(text, &stat)) << text;
  }
}

TEST(HasMarks, WantsAllThree) {
  EXPECT_TRUE(
      HasMarks("A=1\0MUSTER_JOB_ID=j1\0MUSTER_NODE=n1\0MUSTER_ATTEMPT=2\0"s, kAttempt, kNode));
  EXPECT_FALSE(HasMarks("MUSTER_JOB_ID=j1\0MUSTER_ATTEMPT=2\0"s, kAttempt, kNode));
  EXPECT_FALSE(HasMarks(""s, kAttempt, kNode));
}

TEST(HasMarks, ComparesWholeValues) {
  EXPECT_FALSE(HasMarks("MUSTER_JOB_ID=j1\0MUSTER_ATTEMPT=21\0MUSTER_NODE=n1\0"s, kAttempt, kNode));
  EXPECT_FALSE(HasMarks("MUSTER_JOB_ID=j1\0MUSTER_ATTEMPT=2\0MUSTER_NODE=n12\0"s, kAttempt, kNode));
  EXPECT_FALSE(HasMarks("XMUSTER_JOB_ID=j1\0MUSTER_ATTEMPT=2\0MUSTER_NODE=n1\0"s, kAttempt, kNode));
}

TEST(HasMarks, ReadsALastStringWithoutItsNul) {
  EXPECT_TRUE(HasMarks("MUSTER_JOB_ID=j1\0MUSTER_ATTEMPT=2\0MUSTER_NODE=n1"s, kAttempt, kNode));
}

}  // namespace
}  // namespace muster
