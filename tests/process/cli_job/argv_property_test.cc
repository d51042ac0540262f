// Whatever a user types behind the script reaches the launch specification byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "coordinator/cli/job_builder.h"
#include "coordinator/plan/plan_job.h"

namespace muster {
namespace {

using ::testing::ElementsAreArray;

std::string RandomArgument(std::mt19937& random) {
  static const std::vector<std::string> kNasty = {
      "",           "--",     "-",          "-1",       "--hostfile",
      "-h",         "--help", "a b",        "it's",     "\"",
      "$HOME",      "`x`",    "$(touch x)", ";",        "&&",
      "|",          "*.py",   "\n",         "\\",       "%n",
      "{\"a\": 1}", "=",      "--x=",       "\xc3\xbc", "--local_rank=3"};
  if (random() % 2 == 0) return kNasty[random() % kNasty.size()];
  std::string out(random() % 40, '\0');
  for (char& c : out) c = static_cast<char>(1 + random() % 255);
  return out;
}

TEST(Argv, ReachesTheLaunchSpecificationByteForByte) {
  std::mt19937 random(20'240'611);
  ClientEnv client;
  client.cwd = "/no/such/folder";
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> rest;
    for (size_t i = random() % 12; i > 0; --i) rest.push_back(RandomArgument(random));
    const int form = static_cast<int>(random() % 3);
    std::vector<std::string> typed = {"--hosts", "node-[1-2] slots=2"};
    std::vector<std::string> want = {"python3", "-u"};
    if (form == 1) {
      typed.push_back("--module");
      want.push_back("-m");
    } else if (form == 2) {
      typed.push_back("--no_python");
      want.clear();
    }
    typed.push_back("target");
    want.push_back("target");
    typed.insert(typed.end(), rest.begin(), rest.end());
    want.insert(want.end(), rest.begin(), rest.end());

    const absl::StatusOr<SpawnFlags> flags = ParseSpawnFlags(typed);
    ASSERT_TRUE(flags.ok()) << flags.status();
    const absl::StatusOr<BuiltJob> job = BuildFromFlags(*flags, client);
    ASSERT_TRUE(job.ok()) << job.status();
    // Over the wire and back.
    v1::JobSpec received;
    ASSERT_TRUE(received.ParseFromString(job->spec.SerializeAsString()));
    const absl::StatusOr<v1::Plan> plan = PlanJob(received, {});
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const v1::PlannedNode& node : plan->nodes()) {
      EXPECT_THAT(node.launch().argv(), ElementsAreArray(want));
    }
  }
}

TEST(Env, ReachesTheLaunchSpecificationByteForByte) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    ClientEnv client;
    client.cwd = "/no/such/folder";
    const std::string shell = RandomArgument(random);
    const std::string flag = RandomArgument(random);
    client.environ = {{"HF_HOME", shell}};
    const absl::StatusOr<SpawnFlags> flags =
        ParseSpawnFlags(std::vector<std::string>{"--env", "X=" + flag, "t.py"});
    ASSERT_TRUE(flags.ok());
    const absl::StatusOr<BuiltJob> job = BuildFromFlags(*flags, client);
    ASSERT_TRUE(job.ok()) << job.status();
    const v1::Plan plan = *PlanJob(job->spec, {});
    std::vector<std::string> values;
    for (const v1::EnvAssignment& assignment : plan.nodes(0).launch().env()) {
      std::string value;
      for (const v1::EnvPart& part : assignment.parts()) value += part.literal();
      values.push_back(assignment.name() + "=" + value);
    }
    EXPECT_THAT(values, ElementsAreArray({"HF_HOME=" + shell, "X=" + flag}));
  }
}

}  // namespace
}  // namespace muster
