#include "coordinator/spec/slurm_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/annotate.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view nodes, std::string_view tasks) {
  const auto lines = SlurmHostfile(nodes, tasks);
  EXPECT_TRUE(absl::IsInvalidArgument(lines.status())) << lines.status();
  return std::string(MessageOf(lines.status()));
}

TEST(SlurmHostfile, ExpandsRangesAndCounts) {
  EXPECT_EQ(*SlurmHostfile("gpu[01-02,10],login", "8(x2),4,1"),
            "gpu01 slots=8\ngpu02 slots=8\ngpu10 slots=4\nlogin slots=1\n");
  EXPECT_EQ(*SlurmHostfile("node-1", "2"), "node-1 slots=2\n");
  EXPECT_EQ(*SlurmHostfile("a[1-2]-ib[7-8]", "3(x4)"),
            "a1-ib7 slots=3\na1-ib8 slots=3\na2-ib7 slots=3\na2-ib8 slots=3\n");
}

TEST(SlurmHostfile, WithoutCountsTheNodesSayHowManySlotsTheyHave) {
  EXPECT_EQ(*SlurmHostfile("n[1-3]", ""), "n1\nn2\nn3\n");
}

TEST(SlurmHostfile, OutsideAnAllocationThatIsSaid) {
  EXPECT_THAT(ErrorOf("", ""), HasSubstr("SLURM_JOB_NODELIST is not set"));
}

TEST(SlurmHostfile, RefusesWhatSlurmDoesNotWrite) {
  for (const char* nodes : {"n[1-", "n[3-1]", "n:8", "a b", ",", "n1,,n2", "u@n1", "n[1-999999]"}) {
    EXPECT_THAT(ErrorOf(nodes, ""), HasSubstr("SLURM_JOB_NODELIST: ")) << nodes;
  }
  for (const char* tasks : {"x", "8(x", "8(x2", "8(2)", "0", "8(x0)", "8(x3)", "2,2,2", "8(x2)y",
                            "-1", "8 ", "99999"}) {
    EXPECT_THAT(ErrorOf("n[1-2]", tasks), HasSubstr("SLURM_TASKS_PER_NODE")) << tasks;
  }
  EXPECT_THAT(ErrorOf("n[1-3]", "8(x2)"), HasSubstr("has 3 nodes"));
}

}  // namespace
}  // namespace muster
