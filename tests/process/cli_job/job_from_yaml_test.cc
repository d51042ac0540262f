#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/annotate.h"
#include "coordinator/cli/job_builder.h"
#include "tests/process/cli_job/user_folder.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class JobFromYamlTest : public ::testing::Test {
 protected:
  absl::StatusOr<BuiltJob> Try(const std::string& path, const RunFlags& flags = {}) {
    return BuildFromYaml(path, flags, user_.client);
  }
  BuiltJob Build(const std::string& path, const RunFlags& flags = {}) {
    absl::StatusOr<BuiltJob> job = Try(path, flags);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *std::move(job) : BuiltJob();
  }
  std::string ErrorOf(const std::string& path, const RunFlags& flags = {}) {
    const absl::StatusOr<BuiltJob> job = Try(path, flags);
    EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(MessageOf(job.status()));
  }

  UserFolder user_;
};

TEST_F(JobFromYamlTest, BuildsEverythingThatTheFileSays) {
  user_.Write("jobs/hosts", "node-1 slots=8\nnode-2 slots=8\n");
  user_.Write("jobs/.deepspeed_env", "A=ds\n");
  user_.Write("jobs/more.env", "A=file\n");
  user_.Write("jobs/job.yaml", R"(name: gpt2
hostfile: hosts
include: "node-2@node-1:0,1"
script: run_clm.py
args: [--lr, 1e-3, "", "a b"]
python: /opt/py
user: alice
env: {A: "yes", B: 0644}
env_files: [more.env]
node_env: {node-2: {IF: eno1}}
node_overrides: {node-2: {cwd: /data, python: py3}}
devices: none
bind: none
master_addr: 192.0.2.1
master_port: 29501
grace: 5s
start_timeout: 1m
time_limit: 24h
on_coordinator_loss: stop-after 60s
log_dir: logs
)");
  const BuiltJob job = Build("jobs/job.yaml");
  const v1::JobSpec& spec = job.spec;
  EXPECT_EQ(spec.name(), "gpt2");
  ASSERT_EQ(spec.hosts_size(), 2);
  EXPECT_EQ(spec.hosts(0).selected_slots_size(), 2);
  EXPECT_EQ(spec.hosts(0).source(), "jobs/hosts:1");
  EXPECT_EQ(spec.program().kind(), v1::Program::SCRIPT);
  EXPECT_EQ(spec.program().target(), "run_clm.py");
  EXPECT_THAT(spec.program().args(), ElementsAre("--lr", "1e-3", "", "a b"));
  EXPECT_EQ(spec.program().interpreter(), "/opt/py");
  EXPECT_EQ(spec.user(), "alice");
  EXPECT_EQ(spec.working_directory(), user_.client.cwd + "/jobs");
  std::vector<std::string> env;
  for (const v1::EnvAssignment& assignment : spec.env()) {
    env.push_back(assignment.name() + "=" + assignment.parts(0).literal() + " " +
                  assignment.source());
  }
  EXPECT_THAT(env, ElementsAre("A=ds .deepspeed_env:1", "A=file jobs/more.env:1",
                               "A=yes jobs/job.yaml:8", "B=0644 jobs/job.yaml:8"));
  ASSERT_EQ(spec.node_overrides_size(), 1);
  EXPECT_EQ(spec.node_overrides(0).host(), "node-2");
  EXPECT_EQ(spec.node_overrides(0).working_directory(), "/data");
  EXPECT_EQ(spec.node_overrides(0).interpreter(), "py3");
  EXPECT_EQ(spec.node_overrides(0).env(0).layer(), v1::ENV_LAYER_NODE);
  EXPECT_EQ(spec.master_addr(), "192.0.2.1");
  EXPECT_EQ(spec.master_port(), 29501u);
  EXPECT_EQ(spec.grace().seconds(), 5);
  EXPECT_EQ(spec.start_timeout().seconds(), 60);
  EXPECT_EQ(spec.time_limit().seconds(), 86400);
  EXPECT_EQ(spec.on_coordinator_loss().stop_after().seconds(), 60);
  EXPECT_EQ(job.log_dir, user_.client.cwd + "/jobs/logs");
  EXPECT_THAT(job.warnings, IsEmpty());
  EXPECT_THAT(job.notes, Contains(HasSubstr("jobs/.deepspeed_env")));
}

TEST_F(JobFromYamlTest, TakesCommandsAndModules) {
  user_.Write("c.yaml",
              "hosts: [{host: a, slots: 1}]\ncommand: [/bin/bash, -c, 'echo $RANK']\nargs: [x]\n");
  v1::Program program = Build("c.yaml").spec.program();
  EXPECT_EQ(program.kind(), v1::Program::COMMAND);
  EXPECT_EQ(program.target(), "/bin/bash");
  EXPECT_THAT(program.args(), ElementsAre("-c", "echo $RANK", "x"));
  user_.Write("m.yaml", "hosts: [{host: a, slots: 1}]\nmodule: pkg.tool\n");
  program = Build("m.yaml").spec.program();
  EXPECT_EQ(program.kind(), v1::Program::MODULE);
  EXPECT_EQ(Build("m.yaml").spec.name(), "pkg.tool");
}

TEST_F(JobFromYamlTest, LooksForDeepspeedEnvInTheWorkingDirectoryOfTheJob) {
  user_.Write(".deepspeed_env", "A=here\n");
  user_.Write("run/.deepspeed_env", "A=run\n");
  user_.Write("job.yaml", "hosts: [{host: a, slots: 1}]\nscript: t.py\ncwd: run\n");
  const BuiltJob job = Build("job.yaml");
  EXPECT_EQ(job.spec.working_directory(), user_.client.cwd + "/run");
  ASSERT_EQ(job.spec.env_size(), 1);
  EXPECT_EQ(job.spec.env(0).parts(0).literal(), "run");
}

TEST_F(JobFromYamlTest, LetsFlagsWin) {
  user_.Write("h1", "a slots=1\nb slots=1\n");
  user_.Write("h2", "c slots=4\n");
  user_.Write("job.yaml",
              "hostfile: h1\ninclude: b\nscript: t.py\ngrace: 5s\nlog_dir: l1\ncwd: x\n"
              "env: {A: '1'}\nname: n1\n");
  EXPECT_EQ(Build("job.yaml").spec.hosts(0).host(), "b");
  RunFlags flags;
  flags.hosts.num_nodes = 1;
  EXPECT_EQ(Build("job.yaml", flags).spec.hosts(0).host(), "a");
  flags = {};
  flags.hosts.hostfile = "h2";
  flags.hosts.slots_per_node = 2;
  flags.grace = std::chrono::seconds(1);
  flags.log_dir = "l2";
  flags.cwd = "y";
  flags.env = {"A=2"};
  flags.name = "n2";
  const BuiltJob job = Build("job.yaml", flags);
  EXPECT_EQ(job.spec.hosts(0).host(), "c");
  EXPECT_EQ(job.spec.hosts(0).slot_count(), 2u);
  EXPECT_EQ(job.spec.grace().seconds(), 1);
  EXPECT_EQ(job.log_dir, user_.client.cwd + "/l2");
  EXPECT_EQ(job.spec.working_directory(), user_.client.cwd + "/y");
  EXPECT_EQ(job.spec.env(1).parts(0).literal(), "2");
  EXPECT_EQ(job.spec.name(), "n2");
}

TEST_F(JobFromYamlTest, ReportsProblemsOfAllFilesAtOnce) {
  user_.Write("job.yaml",
              "hostfile: hosts\nscript: t.py\nfoo: 1\nenv: {RANK: 1}\nenv_files:\n  - gone.env\n"
              "node_env: {typo: {A: b}}\n");
  user_.Write("hosts", "a slots=1\na slots=1\n");
  user_.Write(".deepspeed_env", "nonsense\n");
  const std::string error = ErrorOf("job.yaml");
  for (const char* part :
       {"job.yaml:3: ", "job.yaml:4: ", "job.yaml:6: env file gone.env: no such file",
        "hosts:2: ", ".deepspeed_env:1: "}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
  // The hosts are not all known, so nothing can be said about what refers to one.
  EXPECT_THAT(error, Not(HasSubstr("typo")));
}

TEST_F(JobFromYamlTest, RefusesOverridesForHostsThatAreNone) {
  user_.Write("hosts", "a slots=1\nb slots=1\n");
  user_.Write(
      "job.yaml",
      "hostfile: hosts\ninclude: a\nscript: t.py\nnode_env:\n  b: {A: x}\n  typo: {A: x}\n");
  const std::string error = ErrorOf("job.yaml");
  EXPECT_THAT(error, HasSubstr("job.yaml:6: 'typo' is no host of this job"));
  EXPECT_THAT(error, Not(HasSubstr("'b'")));
}

TEST_F(JobFromYamlTest, NamesFilesThatAreMissing) {
  EXPECT_EQ(ErrorOf("gone.yaml"), "gone.yaml: no such file");
  EXPECT_EQ(ErrorOf("."), ".: is a folder");
  user_.Write("sub/job.yaml", "hostfile: gone\nscript: t.py\n");
  EXPECT_EQ(ErrorOf("sub/job.yaml"), "sub/job.yaml:1: hostfile sub/gone: no such file");
}

TEST_F(JobFromYamlTest, PassesPoliciesOnToTheCoordinator) {
  user_.Write(
      "job.yaml",
      "hosts: [{host: a, slots: 1}]\nscript: t.py\nbind: cores\ncontainer: {image: i}\n"
      "restart: {max_attempts: 3, on: [node-lost]}\nstall: {after: 15m, action: dump}\n"
      "log_policies: [{match: x, action: exclude-node}]\nchecks: {skip: [a], require: [b]}\n");
  const v1::JobSpec spec = Build("job.yaml").spec;
  EXPECT_EQ(spec.bind(), "cores");
  EXPECT_EQ(spec.container().image(), "i");
  EXPECT_EQ(spec.restart().max_attempts(), 3u);
  EXPECT_EQ(spec.stall().after().seconds(), 900);
  EXPECT_EQ(spec.log_policies_size(), 1);
  EXPECT_THAT(spec.skip_checks(), ElementsAre("a"));
  EXPECT_THAT(spec.require_checks(), ElementsAre("b"));
}

TEST_F(JobFromYamlTest, BindsToTheProcessorsThatAreListed) {
  user_.Write("job.yaml", "hosts: [{host: a, slots: 1}]\nscript: s\nbind_core_list: 4-7, 0\n");
  EXPECT_EQ(Build("job.yaml").spec.bind(), "cores");
  EXPECT_EQ(Build("job.yaml").spec.bind_core_list(), "0,4-7");
  user_.Write("job.yaml",
              "hosts: [{host: a, slots: 1}]\nscript: s\nbind_core_list: 0-3\nbind: numa\n");
  EXPECT_EQ(Build("job.yaml").spec.bind(), "numa");
}

}  // namespace
}  // namespace muster
