// The table of the two hostfile grammars that are replaced: gaudi_spawn.py (optimum-habana) and
// deepspeed. R12: what either of them accepts is accepted or refused with a clear reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/spec/spec_test_util.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

struct Row {
  std::string line;
  // Whether each of the former parsers took the line.
  bool optimum;
  bool deepspeed;
  // Hosts, or a piece of the reason when `accepted` is false.
  bool accepted;
  std::string outcome;
};

class HostfileGrammars : public ::testing::TestWithParam<Row> {};

TEST_P(HostfileGrammars, R12AcceptsOrGivesAReason) {
  const Row& row = GetParam();
  // A second host, so that lines without a host are about themselves.
  Diagnostics diagnostics;
  const auto hosts = ParseHostfile(row.line + "\nlast slots=1\n", "hosts", diagnostics);
  if (row.accepted) {
    EXPECT_EQ(diagnostics.ErrorText(), "");
    EXPECT_EQ(ShowHosts(hosts), row.outcome + "last:1");
  } else {
    EXPECT_THAT(diagnostics.ErrorText(), HasSubstr(row.outcome));
    ASSERT_FALSE(diagnostics.errors.empty());
    EXPECT_GT(diagnostics.errors[0].line, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    SeedSystems, HostfileGrammars,
    ::testing::Values(
        Row{"10.0.0.1 slots=8", true, true, true, "10.0.0.1:8 "}, Row{"", true, true, true, ""},
        Row{"# comment", false, true, true, ""}, Row{"h slots=8 # note", false, true, true, "h:8 "},
        Row{"h slots=8 max_slots=8", false, true, true, "h:8 "},
        // Refused by both, and still: two numbers that contradict each other.
        Row{"h max_slots=4 slots=8", false, false, false, "max_slots=4 is below slots=8"},
        // deepspeed reads 8 here; a typing error must not decide how many ranks run.
        Row{"h slots=8x", false, true, false, "slots must be a whole number, got '8x'"},
        // gaudi_spawn takes any word before '='; deepspeed, which it calls, then refused the file.
        Row{"h gpus=8", true, false, false, "unknown key 'gpus' (write slots=N)"},
        Row{"h slots=-1", true, false, false, "slots must be at least 1, got -1"},
        // Both take the line and start nothing there.
        Row{"h slots=0", true, true, false, "slots must be at least 1, got 0 (remove the line"},
        Row{"h slots = 8", false, false, true, "h:8 "}, Row{"h", false, false, true, "h:0 "},
        Row{"h slots=8\nh slots=8", false, false, false, "hosts:2: host 'h' is already on line 1"},
        Row{"a:22 slots=8", true, true, false, "port"},
        Row{"u@a slots=8", true, true, true, "a:8 "},
        // Taken as one name, later broken by pdsh.
        Row{"a,b slots=8", true, true, false, "one host per line"},
        // Both took the mark as a part of the name.
        Row{"\xEF\xBB\xBFh slots=8", true, true, true, "h:8 "},
        Row{"A slots=8\na slots=8", true, true, true, "A:8 a:8 "},
        Row{"h slots=99999999999999999999", true, true, false, "slots must be at most 4096"}));

TEST(HostfileGrammars, R13RefusesEmptyFiles) {
  // gaudi_spawn went on with the master address None, deepspeed raised an error.
  EXPECT_THAT(Hosts(""), HasSubstr("hosts: the hostfile names no host"));
}

}  // namespace
}  // namespace muster
