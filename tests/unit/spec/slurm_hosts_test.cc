#include "coordinator/spec/slurm_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/annotate.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string Lines(const SlurmAllocation& allocation) {
  const auto lines = SlurmHostfile(allocation);
  EXPECT_TRUE(lines.ok()) << lines.status();
  return lines.value_or("");
}

std::string ErrorOf(std::string_view nodes, std::string_view tasks) {
  const auto lines = SlurmHostfile({.nodes = nodes, .tasks = tasks});
  EXPECT_TRUE(absl::IsInvalidArgument(lines.status())) << lines.status();
  return std::string(MessageOf(lines.status()));
}

TEST(SlurmHostfile, ExpandsRangesAndCounts) {
  EXPECT_EQ(Lines({.nodes = "gpu[01-02,10],login", .tasks = "8(x2),4,1"}),
            "gpu01 slots=8\ngpu02 slots=8\ngpu10 slots=4\nlogin slots=1\n");
  EXPECT_EQ(Lines({.nodes = "node-1", .tasks = "2"}), "node-1 slots=2\n");
  EXPECT_EQ(Lines({.nodes = "a[1-2]-ib[7-8]", .tasks = "3(x4)"}),
            "a1-ib7 slots=3\na1-ib8 slots=3\na2-ib7 slots=3\na2-ib8 slots=3\n");
}

TEST(SlurmHostfile, WithoutCountsTheNodesSayHowManySlotsTheyHave) {
  EXPECT_EQ(Lines({.nodes = "n[1-3]", .tasks = ""}), "n1\nn2\nn3\n");
}

TEST(SlurmHostfile, TakesNumbersAsLongAsSerialNumbers) {
  EXPECT_EQ(Lines({.nodes = "gpu-[20240115001-20240115002,0020240115003]", .tasks = ""}),
            "gpu-20240115001\ngpu-20240115002\ngpu-0020240115003\n");
}

TEST(SlurmHostfile, WithoutTasksThatWereAskedForSlotsAreCards) {
  const SlurmAllocation two = {.nodes = "n[1-2]", .tasks = "1(x2)"};
  const auto with = [&](auto change) {
    SlurmAllocation allocation = two;
    change(allocation);
    return Lines(allocation);
  };
  EXPECT_EQ(with([](auto& a) { a.gpus_per_node = "8"; }), "n1 slots=8\nn2 slots=8\n");
  EXPECT_EQ(with([](auto& a) { a.gpus_per_node = "gaudi:2,other:1"; }), "n1 slots=3\nn2 slots=3\n");
  EXPECT_EQ(with([](auto& a) { a.gpus_here = "4"; }), "n1 slots=4\nn2 slots=4\n");
  EXPECT_EQ(with([](auto& a) { a.gpus_per_node = "8", a.asked_tasks = "2"; }),
            "n1 slots=1\nn2 slots=1\n");
  EXPECT_EQ(with([](auto& a) { a.gpus_per_node = "0"; }), "n1 slots=1\nn2 slots=1\n");
  EXPECT_EQ(with([](auto& a) { a.gpus_here = "8", a.gpus = "12"; }), "n1 slots=1\nn2 slots=1\n")
      << "the nodes may have different numbers of them";
  for (const char* cards : {"x", "gaudi:", "gaudi", "99999", "4,x", "-1"}) {
    EXPECT_THAT(
        std::string(SlurmHostfile({.nodes = "n1", .gpus_per_node = cards}).status().message()),
        HasSubstr("SLURM_GPUS_PER_NODE: a number of cards expected"))
        << cards;
  }
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
