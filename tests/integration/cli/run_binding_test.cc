// Ranks on cores of their own, from the job file to what is told afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Sandbox;

constexpr char kSeen[] = R"(import json, os, sys
with open('seen.' + os.environ['RANK'], 'w') as stream:
    json.dump({'cpus': sorted(os.sched_getaffinity(0)), 'threads': os.environ.get('OMP_NUM_THREADS')}, stream)
)";

class RunBinding : public ::testing::Test {
 protected:
  RunBinding() {
    box_.Hosts(1, 2);
    box_.Write("seen.py", kSeen);
  }

  // Runs the job and returns its id.
  std::string Run(const std::string& more) {
    box_.Write("job.yaml", "hostfile: hosts\nscript: seen.py\nlog_dir: logs\n" + more);
    CommandRun run = box_.Run({"submit", "--local", "job.yaml"});
    EXPECT_EQ(run.Wait(), 0) << run.err();
    said_ = run.err();
    return std::filesystem::read_symlink(box_.Path("logs/latest"));
  }
  json Seen(int rank) { return json::parse(box_.Read("seen." + std::to_string(rank))); }

  static int OwnCpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
    return CPU_COUNT(&set);
  }

  Sandbox box_;
  std::string said_;
};

TEST_F(RunBinding, CoresAreDividedAndTold) {
  if (OwnCpus() < 2) GTEST_SKIP() << "this machine has a single processor";
  box_.Write("job.yaml", "hostfile: hosts\nscript: seen.py\nbind: cores\n");
  EXPECT_THAT(box_.Run({"explain", "job.yaml"}).out(), HasSubstr("known once nodes are prepared"));
  const std::string job = Run("bind: cores\n");
  const json status = json::parse(box_.Run({"status", job, "-o", "json"}).out());
  if (status["ranks"][0]["placement"]["cpus"].is_null()) {
    GTEST_SKIP() << "no two cores: " << status["ranks"][0]["placement"]["reason"];
  }
  const json first = Seen(0);
  const json second = Seen(1);
  EXPECT_FALSE(first["cpus"].empty());
  EXPECT_EQ(first["cpus"].size(), second["cpus"].size());
  for (const json& cpu : first["cpus"]) {
    for (const json& other : second["cpus"]) EXPECT_NE(cpu, other);
  }
  for (int rank : {0, 1}) {
    const json placement = status["ranks"][rank]["placement"];
    const json seen = Seen(rank);
    EXPECT_EQ(std::to_string(placement["omp_num_threads"].get<int>()), seen["threads"]);
    const json told = json::parse(
        box_.Run({"explain", job, "--rank", std::to_string(rank), "-o", "json"}).out())["ranks"][0];
    EXPECT_EQ(told["bind"]["setting"], "cores");
    EXPECT_EQ(told["bind"]["cpus"], placement["cpus"]);
    EXPECT_EQ(told["env"]["OMP_NUM_THREADS"]["value"], seen["threads"]);
    EXPECT_EQ(told["env"]["OMP_NUM_THREADS"]["layer"], "launcher");
    EXPECT_THAT(box_.Run({"explain", job, "--rank", std::to_string(rank)}).out(),
                HasSubstr("cores: processors " + placement["cpus"].get<std::string>()));
  }
}

TEST_F(RunBinding, ByDefaultRanksWithoutCardsAreAsTheyWere) {
  const std::string job = Run("");
  for (int rank : {0, 1}) {
    EXPECT_EQ(Seen(rank)["cpus"].size(), static_cast<size_t>(OwnCpus()));
    EXPECT_TRUE(Seen(rank)["threads"].is_null());
  }
  EXPECT_THAT(
      box_.Run({"explain", job}).out(),
      AllOf(HasSubstr("numa: not bound (its slot is no card"), Not(HasSubstr("OMP_NUM_THREADS"))));
}

TEST_F(RunBinding, TheUsersThreadsStay) {
  Run("bind: cores\nenv: {OMP_NUM_THREADS: '5'}\n");
  EXPECT_EQ(Seen(0)["threads"], "5");
}

TEST_F(RunBinding, ProcessorsThatAreNotThereAreNamed) {
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "--bind_cores_to_rank",
                             "--bind_core_list", "0,60000-60001", "seen.py"});
  EXPECT_EQ(run.Wait(), 120);
  EXPECT_THAT(run.err(), HasSubstr("60000-60001"));
}

}  // namespace
}  // namespace muster
