#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/annotate.h"
#include "coordinator/cli/job_builder.h"
#include "tests/process/cli_job/user_folder.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JobFromFlagsTest : public ::testing::Test {
 protected:
  absl::StatusOr<BuiltJob> Try(const std::vector<std::string>& args) {
    const absl::StatusOr<SpawnFlags> flags = ParseSpawnFlags(args);
    if (!flags.ok()) return flags.status();
    return BuildFromFlags(*flags, user_.client);
  }
  BuiltJob Build(const std::vector<std::string>& args) {
    absl::StatusOr<BuiltJob> job = Try(args);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *std::move(job) : BuiltJob();
  }
  std::string ErrorOf(const std::vector<std::string>& args) {
    const absl::StatusOr<BuiltJob> job = Try(args);
    EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(MessageOf(job.status()));
  }
  // "host count slot,slot" per host.
  static std::vector<std::string> Hosts(const BuiltJob& job) {
    std::vector<std::string> out;
    for (const v1::HostEntry& host : job.spec.hosts()) {
      out.push_back(
          fmt::format("{} {} {}", host.host(), host.slot_count(),
                      fmt::join(host.selected_slots().begin(), host.selected_slots().end(), ",")));
    }
    return out;
  }

  UserFolder user_;
};

TEST_F(JobFromFlagsTest, RunsOnThisMachineWithoutAHostfile) {
  EXPECT_THAT(Hosts(Build({"t.py"})), ElementsAre("localhost 1 "));
  EXPECT_THAT(Hosts(Build({"--world_size", "4", "t.py"})), ElementsAre("localhost 4 "));
  EXPECT_THAT(Hosts(Build({"--num_nodes", "1", "--num_gpus", "2", "t.py"})),
              ElementsAre("localhost 2 "));
  EXPECT_THAT(Hosts(Build({"--include", "localhost:4,5", "t.py"})), ElementsAre("localhost 0 4,5"));
  EXPECT_THAT(ErrorOf({"--num_nodes", "2", "t.py"}), HasSubstr("need a hostfile"));
  EXPECT_THAT(ErrorOf({"--world_size", "3", "--num_gpus", "2", "t.py"}), HasSubstr("contradicts"));
}

TEST_F(JobFromFlagsTest, RefusesAHostfileThatIsNone) {
  user_.Write("empty", "");
  user_.Write("comments", "# nobody home\n\n");
  std::filesystem::create_directory(user_.client.cwd + "/adir");
  for (const char* path : {"nope/hostfile", "adir", "empty", "comments"}) {
    EXPECT_THAT(ErrorOf({"--hostfile", path, "t.py"}), HasSubstr(path));
  }
}

TEST_F(JobFromFlagsTest, SelectsHostsAndSlots) {
  user_.Write("hosts", "node-1 slots=8\nnode-2 slots=8\n");
  EXPECT_THAT(Hosts(Build({"-H", "hosts", "--include", "node-2:5,7@node-1:0", "t.py"})),
              ElementsAre("node-1 8 0", "node-2 8 5,7"));
  for (const char* culprit : {"node-2:8", "node-7"}) {
    EXPECT_THAT(ErrorOf({"-H", "hosts", "--include", culprit, "t.py"}),
                HasSubstr(std::string(culprit, 6)));
  }
  EXPECT_THAT(ErrorOf({"-H", "hosts", "--num_gpus", "9", "t.py"}), HasSubstr("9"));
  EXPECT_THAT(ErrorOf({"-H", "hosts", "--num_nodes", "3", "t.py"}), HasSubstr("3"));
}

TEST_F(JobFromFlagsTest, ChecksTheWorldSizeAgainstTheHosts) {
  user_.Write("hosts", "node-1 slots=8\nnode-2 slots=4\n");
  EXPECT_EQ(Build({"-H", "hosts", "--world_size", "12", "t.py"}).spec.expected_world_size(), 12u);
  EXPECT_THAT(ErrorOf({"-H", "hosts", "--world_size", "8", "t.py"}),
              AllOf(HasSubstr("--world_size"), HasSubstr("12 ranks")));
  // How many slots a bare host has is seen when its node is known.
  user_.Write("bare", "node-1\n");
  EXPECT_EQ(Build({"-H", "bare", "--world_size", "8", "t.py"}).spec.expected_world_size(), 8u);
}

TEST_F(JobFromFlagsTest, TakesHostsFromTheCommandLine) {
  EXPECT_THAT(Hosts(Build({"--hosts", "node-[1,3] slots=2,gpu slots=1", "t.py"})),
              ElementsAre("node-1 2 ", "node-3 2 ", "gpu 1 "));
  EXPECT_THAT(ErrorOf({"--hosts", "a slots=1,b slots=x", "t.py"}), HasSubstr("--hosts:2: "));
}

TEST_F(JobFromFlagsTest, SetsWhatFlagsSay) {
  const BuiltJob job =
      Build({"--master_port", "29533", "--master_addr", "192.0.2.1", "--grace", "2", "--timeout",
             "5", "--time-limit", "1h", "--python", "/opt/py", "--cwd", "sub", "--log_dir", "logs",
             "--local_rank", "dir/run me.py", "x"});
  EXPECT_EQ(job.spec.master_port(), 29533u);
  EXPECT_EQ(job.spec.master_addr(), "192.0.2.1");
  EXPECT_EQ(job.spec.grace().seconds(), 2);
  EXPECT_EQ(job.spec.start_timeout().seconds(), 5);
  EXPECT_EQ(job.spec.time_limit().seconds(), 3600);
  EXPECT_EQ(job.spec.program().interpreter(), "/opt/py");
  EXPECT_TRUE(job.spec.program().local_rank_argument());
  EXPECT_EQ(job.spec.working_directory(), user_.client.cwd + "/sub");
  EXPECT_EQ(job.log_dir, user_.client.cwd + "/logs");
  EXPECT_EQ(job.spec.name(), "run me");
  EXPECT_EQ(Build({"--name", "n", "t.py"}).spec.name(), "n");
}

TEST_F(JobFromFlagsTest, LayersTheEnvironment) {
  user_.client.environ = {{"HF_HOME", "shell"}};
  user_.Write(".deepspeed_env", "HF_HOME=ds\n");
  user_.Write("e.env", "HF_HOME=file\n");
  const BuiltJob job =
      Build({"--env", "HF_HOME=flag", "--env-file", "e.env", "--use_deepspeed", "t.py"});
  std::vector<std::string> names;
  for (const v1::EnvAssignment& assignment : job.spec.env()) {
    names.push_back(assignment.name() + "|" + assignment.parts(0).literal());
  }
  EXPECT_THAT(names, ElementsAre("HF_HOME|shell", "PYTHONPATH|" + user_.client.cwd + ":",
                                 "HF_HOME|ds", "HF_HOME|file", "HF_HOME|flag"));
}

TEST_F(JobFromFlagsTest, ReportsProblemsOfAllFilesAtOnce) {
  user_.Write("hosts", "node-1 slots=8x\nnode-2 lots=8\n");
  user_.Write(".deepspeed_env", "OK=1\nnonsense\n");
  user_.Write("file", "");
  const std::string error =
      ErrorOf({"-H", "hosts", "--env", "RANK=1", "--log_dir", "file", "t.py"});
  for (const char* part : {"hosts:1: ", "hosts:2: ", ".deepspeed_env:2: ", "--env: RANK",
                           "--log_dir: file is not a folder"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
}

TEST_F(JobFromFlagsTest, WarnsOfWhatHasNoEffect) {
  user_.Write("hosts", "trainer@node-1 slots=1\n");
  const BuiltJob job = Build({"-H", "hosts", "--no_ssh", "--bind_cores_to_rank", "t.py"});
  EXPECT_THAT(job.warnings, Contains(HasSubstr("--no-ssh")));
  EXPECT_EQ(job.spec.bind(), "cores");
  EXPECT_THAT(job.warnings, Contains(AllOf(HasSubstr("hosts:1"), HasSubstr("trainer"))));
}

}  // namespace
}  // namespace muster
