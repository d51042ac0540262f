#include "coordinator/spec/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/spec/spec_test_util.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kTwoNodes[] = "node-1 slots=8\nnode-2 slots=8\n";

// The chosen hosts, or the errors.
std::string Select(std::string_view hostfile, const Selection& selection) {
  Diagnostics diagnostics;
  auto hosts = ParseHostfile(hostfile, "hosts", diagnostics);
  EXPECT_TRUE(diagnostics.ok()) << diagnostics.ErrorText();
  hosts = SelectHosts(std::move(hosts), selection, diagnostics);
  return diagnostics.ok() ? ShowHosts(hosts) : diagnostics.ErrorText();
}

std::string Include(std::string_view hostfile, std::string expression) {
  Selection selection;
  selection.include = std::move(expression);
  return Select(hostfile, selection);
}

std::string Exclude(std::string_view hostfile, std::string expression) {
  Selection selection;
  selection.exclude = std::move(expression);
  return Select(hostfile, selection);
}

std::string Limit(std::string_view hostfile, std::optional<int> nodes, std::optional<int> slots) {
  Selection selection;
  selection.num_nodes = nodes;
  selection.slots_per_node = slots;
  return Select(hostfile, selection);
}

TEST(SelectHosts, WithoutWishesKeepsEverything) {
  EXPECT_EQ(Select(kTwoNodes, {}), "node-1:8 node-2:8");
  EXPECT_EQ(Limit(kTwoNodes, -1, -1), "node-1:8 node-2:8");  // Defaults of deepspeed's flags.
}

TEST(SelectHosts, R14IncludesWholeHosts) { EXPECT_EQ(Include(kTwoNodes, "node-2"), "node-2:8"); }

TEST(SelectHosts, R14KeepsHostfileOrderAndSortsSlots) {
  EXPECT_EQ(Include(kTwoNodes, "node-2:7,5,5@node-1:0"), "node-1:8[0] node-2:8[5,7]");
}

TEST(SelectHosts, R14ReadsRangesOfHostsAndSlots) {
  EXPECT_EQ(Include(kTwoNodes, "node-[1-2]:0-2,7"), "node-1:8[0,1,2,7] node-2:8[0,1,2,7]");
  EXPECT_EQ(Include(kTwoNodes, " node-1 @ node-2:0-3 "), "node-1:8 node-2:8[0,1,2,3]");
}

TEST(SelectHosts, R14ExcludesHostsAndSlots) {
  EXPECT_EQ(Exclude(kTwoNodes, "node-1"), "node-2:8");
  EXPECT_EQ(Exclude(kTwoNodes, "node-2:0,4-7"), "node-1:8 node-2:8[1,2,3]");
  EXPECT_EQ(Exclude(kTwoNodes, "node-1:0-7"), "node-2:8");
}

TEST(SelectHosts, R14RefusesWhatDoesNotExistByName) {
  EXPECT_THAT(Include(kTwoNodes, "node-2:8"),
              AllOf(HasSubstr("--include: host 'node-2' has no slot 8"), HasSubstr("hosts:2")));
  EXPECT_THAT(Include(kTwoNodes, "node-7"), HasSubstr("host 'node-7' is not among the hosts"));
  EXPECT_THAT(Include(kTwoNodes, "noed-1"), HasSubstr("did you mean 'node-1'?"));
  EXPECT_THAT(Exclude(kTwoNodes, "node-1:99"),
              HasSubstr("--exclude: host 'node-1' has no slot 99"));
}

TEST(SelectHosts, R14RefusesAnEmptyResult) {
  EXPECT_THAT(Exclude(kTwoNodes, "node-1@node-2"), HasSubstr("--exclude: no host is left"));
  EXPECT_THAT(Exclude(kTwoNodes, "node-[1-2]:0-7"), HasSubstr("no host is left"));
}

TEST(SelectHosts, R14RefusesExpressionsThatMakeNoSense) {
  for (const std::string text :
       {"node-1:", "node-1:-1", "node-1:a", "node-1:3-1", "node-1:1,,2", "@", "node-1@",
        "node-1@node-1", "node-1:0@node-1:1", "node-[1-2]@node-2:0", "node-1:0:1", ":0",
        "node-[2-1]", "node-1:4294967296", "node-1:5000"}) {
    EXPECT_THAT(Include(kTwoNodes, text), HasSubstr("--include:")) << text;
  }
}

TEST(SelectHosts, ReportsEveryMistakeOfAnExpression) {
  EXPECT_THAT(Include(kTwoNodes, "node-1:8,9@node-3"),
              AllOf(HasSubstr("no slot 8"), HasSubstr("no slot 9"), HasSubstr("'node-3'")));
}

TEST(SelectHosts, ReadsIpv6Addresses) {
  constexpr char kHosts[] = "fe80::1 slots=4\n[fe80::2] slots=4\n";
  EXPECT_EQ(Include(kHosts, "fe80::2"), "fe80::2:4");
  EXPECT_EQ(Include(kHosts, "[fe80::1]:0,1"), "fe80::1:4[0,1]");
  EXPECT_EQ(Include(kHosts, "[FE80:0::2]"), "fe80::2:4");
}

TEST(SelectHosts, R15LeavesSlotsOfBareHostsToTheNode) {
  EXPECT_EQ(Include("a\nb\n", "b:5,7"), "b:0[5,7]");
  EXPECT_THAT(Exclude("a\nb\n", "b:5"),
              AllOf(HasSubstr("'b'"), HasSubstr("hosts:2"), HasSubstr("slots=N")));
  EXPECT_EQ(Exclude("a\nb\n", "b"), "a:0");
}

TEST(SelectHosts, R15ChoosesAmongTheModulesOfAHost) {
  EXPECT_EQ(Include("a modules=4-7\n", "a:5"), "a:4[5]");
  EXPECT_EQ(Exclude("a modules=4-7\n", "a:4,5"), "a:4[6,7]");
  EXPECT_THAT(Include("a modules=4-7\n", "a:0"),
              AllOf(HasSubstr("no slot 0"), HasSubstr("4,5,6,7")));
  EXPECT_EQ(Limit("a modules=4-7\n", {}, 2), "a:2[4,5]");
}

TEST(SelectHosts, R14LimitsNodesAndSlots) {
  EXPECT_EQ(Limit(kTwoNodes, 1, 2), "node-1:2");
  EXPECT_EQ(Limit(kTwoNodes, 2, {}), "node-1:8 node-2:8");
  EXPECT_EQ(Limit("a\nb slots=4\n", {}, 2), "a:2 b:2");
}

TEST(SelectHosts, R14RefusesMoreThanThereIs) {
  EXPECT_THAT(Limit(kTwoNodes, {}, 9),
              AllOf(HasSubstr("--num_gpus: 9 slots"), HasSubstr("'node-1' has 8"),
                    HasSubstr("'node-2' has 8")));
  EXPECT_THAT(Limit(kTwoNodes, 3, {}),
              HasSubstr("--num_nodes: 3 nodes are asked for, but there are 2"));
  EXPECT_THAT(Limit(kTwoNodes, 0, {}), HasSubstr("--num_nodes"));
  EXPECT_THAT(Limit(kTwoNodes, {}, 0), HasSubstr("--num_gpus"));
  EXPECT_THAT(Limit(kTwoNodes, -2, -2), AllOf(HasSubstr("--num_nodes"), HasSubstr("--num_gpus")));
}

TEST(SelectHosts, R14RefusesCombinations) {
  Selection both;
  both.include = "node-1";
  both.exclude = "node-2";
  EXPECT_THAT(Select(kTwoNodes, both), HasSubstr("mutually exclusive"));
  Selection counted;
  counted.include = "node-1";
  counted.num_nodes = 1;
  counted.slots_per_node = 1;
  counted.num_nodes_at = {"job.yaml", 7};
  EXPECT_THAT(Select(kTwoNodes, counted),
              AllOf(HasSubstr("job.yaml:7: cannot be used with include"),
                    HasSubstr("--num_gpus: cannot be used with include")));
}

TEST(IsGaudiGroup, R15KnowsWhichCardsReachEachOther) {
  using Cards = std::vector<uint32_t>;
  for (const Cards& cards : {Cards{0, 1}, Cards{6, 7}, Cards{0, 1, 2, 3}, Cards{4, 5, 6, 7},
                             Cards{3}, Cards{0, 1, 2}, Cards{0, 1, 2, 3, 4, 5, 6, 7}, Cards{}}) {
    EXPECT_TRUE(IsGaudiGroup(cards));
  }
  for (const Cards& cards :
       {Cards{1, 2}, Cards{0, 2}, Cards{2, 3, 4, 5}, Cards{0, 1, 2, 4}, Cards{8, 9}}) {
    EXPECT_FALSE(IsGaudiGroup(cards));
  }
}

}  // namespace
}  // namespace muster
