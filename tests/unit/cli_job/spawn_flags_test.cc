#include "coordinator/cli/spawn_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "common/base/annotate.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

using Args = std::vector<std::string>;

SpawnFlags Parsed(const Args& args) {
  absl::StatusOr<SpawnFlags> flags = ParseSpawnFlags(args);
  EXPECT_TRUE(flags.ok()) << flags.status();
  return flags.ok() ? *std::move(flags) : SpawnFlags();
}

std::string ErrorOf(const Args& args) {
  const absl::StatusOr<SpawnFlags> flags = ParseSpawnFlags(args);
  EXPECT_EQ(flags.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(MessageOf(flags.status()));
}

TEST(ParseSpawnFlags, TakesTheCommandLineOfGaudiSpawn) {
  const SpawnFlags flags =
      Parsed({"--hostfile", "hosts", "--use_deepspeed", "--master_port", "29501", "--world_size",
              "16", "run_clm.py", "--deepspeed", "ds.json"});
  EXPECT_THAT(flags.run.hosts.hostfile, Optional(std::string("hosts")));
  EXPECT_TRUE(flags.use_deepspeed);
  EXPECT_THAT(flags.run.master_port, Optional(29501u));
  EXPECT_THAT(flags.world_size, Optional(16));
  EXPECT_EQ(flags.target, "run_clm.py");
  EXPECT_THAT(flags.args, ElementsAre("--deepspeed", "ds.json"));
  EXPECT_FALSE(flags.local_rank);
  EXPECT_THAT(flags.run.warnings, IsEmpty());
}

TEST(ParseSpawnFlags, TakesTheSelectionFlagsOfDeepspeed) {
  SpawnFlags flags =
      Parsed({"-H", "h", "--num_nodes", "2", "--num_gpus=4", "--master_addr", "192.0.2.1",
              "--no_local_rank", "--bind_cores_to_rank", "--bind_core_list", "0-3", "-q", "t.py"});
  EXPECT_THAT(flags.run.hosts.hostfile, Optional(std::string("h")));
  EXPECT_THAT(flags.run.hosts.num_nodes, Optional(2));
  EXPECT_THAT(flags.run.hosts.slots_per_node, Optional(4));
  EXPECT_EQ(flags.run.master_addr, "192.0.2.1");
  EXPECT_EQ(flags.bind, "cores");
  EXPECT_EQ(flags.bind_core_list, "0-3");
  EXPECT_TRUE(flags.run.quiet);
  flags = Parsed({"-i", "a@b:0,1", "--num_accelerators", "2", "t.py"});
  EXPECT_EQ(flags.run.hosts.include, "a@b:0,1");
  EXPECT_THAT(flags.run.hosts.slots_per_node, Optional(2));
  EXPECT_EQ(Parsed({"-e", "b", "t.py"}).run.hosts.exclude, "b");
}

TEST(ParseSpawnFlags, TakesDashAndUnderscoreForTheSame) {
  for (const char* flag : {"--use_deepspeed", "--use-deepspeed"}) {
    EXPECT_TRUE(Parsed({flag, "t.py"}).use_deepspeed) << flag;
  }
  EXPECT_EQ(Parsed({"--log_dir=a_b-c", "t.py"}).run.log_dir, "a_b-c");
  EXPECT_TRUE(Parsed({"--dry-run", "t.py"}).run.dry_run);
}

TEST(ParseSpawnFlags, TakesTheValuesThatOtherLaunchersHaveForNothing) {
  const SpawnFlags flags =
      Parsed({"--num_nodes", "-1", "--num_gpus", "-1", "--node_rank", "-1", "--launcher_args", "",
              "--autotuning=", "--min_elastic_nodes", "-1", "--enable_each_rank_log", "None",
              "--include", "", "t.py"});
  EXPECT_FALSE(flags.run.hosts.num_nodes.has_value());
  EXPECT_FALSE(flags.run.hosts.slots_per_node.has_value());
  EXPECT_EQ(flags.run.log_dir, "");
  EXPECT_THAT(flags.run.warnings, IsEmpty());
}

TEST(ParseSpawnFlags, NeverLooksBehindTheScript) {
  const Args rest = {"--hostfile", "--help",         "--",       "-1",        "",           "a b",
                     "line\nline", "--no_such_flag", "\xff\xfe", "--dry_run", "{\"a\": 1}", "-o",
                     "$HOME"};
  Args args = {"--hostfile", "h", "t.py"};
  args.insert(args.end(), rest.begin(), rest.end());
  const SpawnFlags flags = Parsed(args);
  EXPECT_THAT(flags.args, ElementsAreArray(rest));
  EXPECT_FALSE(flags.run.dry_run);
  EXPECT_FALSE(flags.help);
}

TEST(ParseSpawnFlags, TakesTheFirstWordThatIsNoFlagForTheScript) {
  EXPECT_EQ(Parsed({"--num_nodes", "2", "-H", "x", "-Hy", "--local", "t.py", "z"}).target, "t.py");
  EXPECT_EQ(Parsed({"--", "-odd.py", "--", "x"}).target, "-odd.py");
  EXPECT_THAT(Parsed({"--", "-odd.py", "--", "x"}).args, ElementsAre("--", "x"));
  EXPECT_EQ(Parsed({"--log_dir", "--local", "t.py"}).run.log_dir, "--local");
  const SpawnFlags shell = Parsed({"--no_python", "/bin/bash", "-c", "x=1 exec y", "--", "--lr"});
  EXPECT_EQ(shell.target, "/bin/bash");
  EXPECT_THAT(shell.args, ElementsAre("-c", "x=1 exec y", "--", "--lr"));
}

TEST(ParseSpawnFlags, ReadsOurOwnFlags) {
  const SpawnFlags flags =
      Parsed({"--local",       "--server",  "unix:/x",   "--detach", "--name",       "n",
              "--grace",       "1.5",       "--timeout", "5m",       "--time-limit", "1h30m",
              "--env",         "A=1",       "--env",     "B",        "--env-file",   "f",
              "--forward-env", "FOO_,-BAR", "-o",        "json",     "--log_level",  "warn",
              "--cwd",         "d",         "--python",  "py",       "t.py"});
  EXPECT_TRUE(flags.run.local);
  EXPECT_TRUE(flags.run.detach);
  EXPECT_EQ(flags.run.server, "unix:/x");
  EXPECT_EQ(flags.run.name, "n");
  EXPECT_THAT(flags.run.grace, Optional(std::chrono::milliseconds(1500)));
  EXPECT_THAT(flags.run.start_timeout, Optional(std::chrono::minutes(5)));
  EXPECT_THAT(flags.run.time_limit, Optional(std::chrono::minutes(90)));
  EXPECT_THAT(flags.run.env, ElementsAre("A=1", "B"));
  EXPECT_THAT(flags.run.env_files, ElementsAre("f"));
  ASSERT_EQ(flags.run.forward_env.size(), 2u);
  EXPECT_TRUE(flags.run.forward_env[0].Matches("FOO_X"));
  EXPECT_TRUE(flags.run.forward_env[1].removes);
  EXPECT_EQ(flags.run.output, "json");
  EXPECT_EQ(flags.run.log_level, "warning");
  EXPECT_EQ(flags.run.cwd, "d");
  EXPECT_EQ(flags.run.python, "py");
}

TEST(ParseSpawnFlags, SaysWhatHasNoEffect) {
  const struct {
    Args args;
    const char* text;
  } cases[] = {
      {{"--launcher", "pdsh"}, "agents"}, {{"--no_ssh"}, "SSH"},        {{"--no_ssh_check"}, "SSH"},
      {{"--ssh_port", "22"}, "SSH"},      {{"--force_multi"}, "alike"}, {{"--use_mpi"}, "mpirun"},
  };
  for (const auto& c : cases) {
    Args args = c.args;
    args.push_back("t.py");
    EXPECT_THAT(Parsed(args).run.warnings, ElementsAre(HasSubstr(c.text))) << c.args[0];
  }
}

TEST(ParseSpawnFlags, SaysWhatToUseInstead) {
  const struct {
    Args args;
    const char* text;
  } cases[] = {
      {{"--launcher_args", "-x"}, "--env"},
      {{"--elastic_training"}, "--num-nodes"},
      {{"--min_elastic_nodes", "2"}, "--num-nodes"},
      {{"--max_elastic_nodes", "2"}, "--num-nodes"},
      {{"--autotuning", "tune"}, "autotuner"},
      {{"--node_rank", "1"}, "start the command once"},
  };
  for (const auto& c : cases) {
    Args args = c.args;
    args.push_back("t.py");
    EXPECT_THAT(ErrorOf(args), AllOf(HasSubstr("not supported"), HasSubstr(c.text))) << c.args[0];
  }
}

TEST(ParseSpawnFlags, RefusesContradictions) {
  EXPECT_THAT(ErrorOf({"--module", "--no_python", "x"}),
              AllOf(HasSubstr("--module"), HasSubstr("--no_python")));
  EXPECT_THAT(ErrorOf({"--use_mpi", "--use_deepspeed", "x"}), HasSubstr("exclude"));
  EXPECT_THAT(ErrorOf({"--local_rank", "--no_local_rank", "x"}), HasSubstr("exclude"));
  EXPECT_THAT(ErrorOf({"--hostfile", "h", "--hosts", "a", "x"}), HasSubstr("exclude"));
  EXPECT_THAT(ErrorOf({"--log_dir", "a", "--enable_each_rank_log", "b", "x"}),
              HasSubstr("different"));
  EXPECT_EQ(Parsed({"--enable_each_rank_log", "b", "x"}).run.log_dir, "b");
}

TEST(ParseSpawnFlags, ReportsEveryProblemAtOnce) {
  const std::string error =
      ErrorOf({"--world_size", "0", "--num_gpus", "x", "--master_port", "65536", "--grace", "soon",
               "--hostfiel", "--output", "xml", "--hostfile="});
  for (const char* part : {"--world-size: ", "--num-gpus: ", "--master-port: ", "--grace: ",
                           "--hostfile?", "--output: ", "--hostfile: needs", "script is missing"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
}

TEST(ParseSpawnFlags, RefusesNumbersThatAreNone) {
  for (const char* value : {"0", "-2", "+3", "3x", "", " 3", "99999999999999999999", "0x10"}) {
    EXPECT_THAT(ErrorOf({"--num_gpus", value, "t.py"}), HasSubstr("whole number")) << value;
  }
}

TEST(ParseSpawnFlags, RefusesAFlagWithoutItsValue) {
  EXPECT_THAT(ErrorOf({"--hostfile"}), HasSubstr("--hostfile needs a value"));
}

TEST(ParseSpawnFlags, KnowsHelpFromAScriptsHelp) {
  EXPECT_TRUE(Parsed({"--local", "--help"}).help);
  EXPECT_TRUE(Parsed({"-h", "t.py"}).help);
  EXPECT_FALSE(Parsed({"t.py", "-h"}).help);
  for (const char* flag :
       {"--hostfile", "--world-size", "--use-deepspeed", "--log-dir", "--time-limit"}) {
    EXPECT_THAT(SpawnHelp(), HasSubstr(flag));
  }
}

}  // namespace
}  // namespace muster
