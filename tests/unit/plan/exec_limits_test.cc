#include "coordinator/plan/exec_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/plan/plan_fixtures.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<std::string> Check(const std::vector<std::string>& argv,
                               const std::vector<v1::EnvAssignment>& env,
                               const std::vector<v1::EnvAssignment>& node_env = {}) {
  v1::LaunchSpec launch;
  v1::NodeOverride node;
  for (const std::string& arg : argv) launch.add_argv(arg);
  for (const v1::EnvAssignment& assignment : env) *launch.add_env() = assignment;
  for (const v1::EnvAssignment& assignment : node_env) *node.add_env() = assignment;
  return CheckExecutable(launch.argv(), launch.env(), node.env());
}

// NAME=<value><value of `variable`>.
v1::EnvAssignment Growing(const std::string& name, const std::string& value,
                          const std::string& variable) {
  v1::EnvAssignment assignment = JobEnv(name, value);
  assignment.add_parts()->set_variable(variable);
  return assignment;
}

TEST(CheckExecutable, AcceptsTheLongestStringsThatTheKernelTakes) {
  const std::string value(kMaxExecStringBytes - 2, 'x');
  EXPECT_THAT(Check({"prog", std::string(kMaxExecStringBytes, 'y')}, {JobEnv("A", value)}),
              IsEmpty());
}

TEST(CheckExecutable, NamesTheVariableItsSizeAndItsPlace) {
  const std::vector<std::string> reasons =
      Check({"prog"}, {JobEnv("BIGVAR", std::string(200'000, 'x')), JobEnv("SMALL", "x")});
  EXPECT_THAT(reasons, ElementsAre(AllOf(HasSubstr("BIGVAR"), HasSubstr("too long"),
                                         HasSubstr("200007 bytes"), HasSubstr("131071"),
                                         HasSubstr("job.yaml:4"))));
}

TEST(CheckExecutable, CountsOnlyTheValueThatHolds) {
  EXPECT_THAT(Check({"prog"}, {JobEnv("A", std::string(200'000, 'x'))}, {JobEnv("A", "short")}),
              IsEmpty());
  EXPECT_THAT(Check({"prog"}, {JobEnv("A", "short")}, {JobEnv("A", std::string(200'000, 'x'))}),
              ElementsAre(HasSubstr("A (job.yaml:4) is too long")));
}

TEST(CheckExecutable, FollowsReferencesToEarlierValues) {
  const std::string half(100'000, 'x');
  EXPECT_THAT(Check({"prog"}, {JobEnv("A", half), Growing("B", half, "A")}),
              ElementsAre(HasSubstr("200002 bytes")));
  // The value of the node's own PATH is not known here.
  EXPECT_THAT(Check({"prog"}, {Growing("PATH", half, "PATH")}), IsEmpty());
}

TEST(CheckExecutable, StopsValuesThatDoubleForEver) {
  std::vector<v1::EnvAssignment> env = {JobEnv("A", "xxxxxxxx")};
  for (int i = 0; i < 200; ++i) {
    v1::EnvAssignment twice = Growing("A", "", "A");
    twice.add_parts()->set_variable("A");
    env.push_back(twice);
  }
  EXPECT_THAT(Check({"prog"}, env), testing::Contains(HasSubstr("would grow")));
}

TEST(CheckExecutable, NamesTheLargestWhenTheSumIsTooLong) {
  std::vector<v1::EnvAssignment> env;
  for (int i = 0; i < 70; ++i) {
    env.push_back(JobEnv("V" + std::to_string(i), std::string(i == 42 ? 130'000 : 100'000, 'x')));
  }
  EXPECT_THAT(Check({"prog"}, env),
              ElementsAre(AllOf(HasSubstr("too long together"), HasSubstr("variable V42"))));
}

TEST(CheckExecutable, ReportsEverythingThatCannotBePassed) {
  v1::EnvAssignment nul = JobEnv("N", "");
  nul.add_parts()->set_literal(std::string("a\0b", 3));
  EXPECT_THAT(Check({"", std::string("a\0b", 3), std::string(200'000, 'z')},
                    {nul, JobEnv("1X", "a"), JobEnv("A=B", "a")}),
              UnorderedElementsAre(HasSubstr("no program"), HasSubstr("argument 1 has a NUL"),
                                   HasSubstr("argument 2"), HasSubstr("N (job.yaml:4) has a NUL"),
                                   HasSubstr("1X"), HasSubstr("A=B")));
  EXPECT_THAT(Check({}, {}), ElementsAre(HasSubstr("no program")));
}

}  // namespace
}  // namespace muster
