#include "coordinator/spec/job_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/unit/spec/spec_test_util.h"

namespace muster {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  JobFile job;
  Diagnostics diagnostics;
  std::string Errors() const { return diagnostics.ErrorText(); }
  std::string Warnings() const {
    return fmt::format("{}", fmt::join(diagnostics.WarningTexts(), "\n"));
  }
};

Parsed Parse(std::string_view text) {
  Parsed parsed;
  parsed.job = ParseJobYaml(text, "job.yaml", parsed.diagnostics);
  return parsed;
}

// Lines behind the two keys that every job needs; errors count from line 3.
Parsed ParseMore(std::string_view text) {
  return Parse("hostfile: hosts\nscript: train.py\n" + std::string(text));
}

std::string ShowEnv(const std::vector<v1::EnvAssignment>& env) {
  std::vector<std::string> texts;
  for (const v1::EnvAssignment& a : env) texts.push_back(a.name() + "=" + ShowValue(a));
  return fmt::format("{}", fmt::join(texts, "|"));
}

constexpr char kEverything[] = R"(
name: gpt2-xl-wikitext
hostfile: hostfile
include: "node-1@node-2:0-3"
script: run_clm.py
args: [--model_name_or_path, gpt2-xl, --do_train, --deepspeed, ds_config.json]
python: python3
cwd: .
user: alice
env: {HCCL_OVER_OFI: "1"}
env_files: [.deepspeed_env]
forward_env: [HCCL_, PT_HPU_]
node_env: {node-2: {HCCL_SOCKET_IFNAME: eno1}}
node_overrides: {node-2: {python: /opt/py, cwd: /scratch, env: {A: b}}}
devices: auto
bind: numa
master_addr: ""
master_port: 0
grace: 30s
start_timeout: 5m
time_limit: 24h
device_wait: 0
on_coordinator_loss: stop-after 60s
restart: {max_attempts: 3, on: [node-lost, rank-failed], spares: 1}
stall: {after: 15m, action: dump}
log_policies: [{match: "CUDA error|synStatus", action: exclude-node}]
checks: {skip: [a], require: [b]}
container: {image: "img:1", runtime: habana, options: [--ipc=host]}
log_dir: logs
log_quota: 512MiB
)";

TEST(ParseJobYaml, ReadsEveryKey) {
  const Parsed parsed = Parse(kEverything);
  ASSERT_EQ(parsed.Errors(), "");
  EXPECT_EQ(parsed.Warnings(), "");
  const JobFile& job = parsed.job;
  EXPECT_EQ(job.file, "job.yaml");
  EXPECT_EQ(job.name, "gpt2-xl-wikitext");
  EXPECT_EQ(job.hostfile, "hostfile");
  EXPECT_EQ(job.include, "node-1@node-2:0-3");
  EXPECT_EQ(job.script, "run_clm.py");
  EXPECT_THAT(job.args, ElementsAre("--model_name_or_path", "gpt2-xl", "--do_train", "--deepspeed",
                                    "ds_config.json"));
  EXPECT_EQ(job.python, "python3");
  EXPECT_EQ(job.cwd, ".");
  EXPECT_EQ(job.user, "alice");
  EXPECT_EQ(ShowEnv(job.env), "HCCL_OVER_OFI=1");
  EXPECT_EQ(job.env[0].layer(), v1::ENV_LAYER_JOB);
  EXPECT_EQ(job.env[0].source(), "job.yaml:10");
  ASSERT_EQ(job.env_files.size(), 1u);
  EXPECT_EQ(job.env_files[0].text, ".deepspeed_env");
  EXPECT_EQ(job.env_files[0].line, 11);
  ASSERT_EQ(job.forward_env.size(), 2u);
  EXPECT_TRUE(job.forward_env[0].Matches("HCCL_X"));
  ASSERT_EQ(job.nodes.size(), 1u);
  EXPECT_EQ(job.nodes[0].host, "node-2");
  EXPECT_EQ(job.nodes[0].line, 13);
  EXPECT_EQ(job.nodes[0].python, "/opt/py");
  EXPECT_EQ(job.nodes[0].cwd, "/scratch");
  EXPECT_EQ(ShowEnv(job.nodes[0].env), "HCCL_SOCKET_IFNAME=eno1|A=b");
  EXPECT_EQ(job.nodes[0].env[0].layer(), v1::ENV_LAYER_NODE);
  EXPECT_EQ(job.devices, "auto");
  EXPECT_EQ(job.bind, "numa");
  EXPECT_EQ(job.master_addr, "");
  EXPECT_EQ(job.master_port, 0u);
  EXPECT_EQ(job.grace, seconds(30));
  EXPECT_EQ(job.start_timeout, minutes(5));
  EXPECT_EQ(job.time_limit, hours(24));
  EXPECT_EQ(job.device_wait, hours(0));
  EXPECT_EQ(job.log_quota, 512u << 20);
  ASSERT_TRUE(job.on_coordinator_loss.has_value());
  EXPECT_EQ(job.on_coordinator_loss->stop_after, minutes(1));
  EXPECT_EQ(job.restart->ShortDebugString(),
            "max_attempts: 3 on: \"node-lost\" on: \"rank-failed\" spares: 1");
  EXPECT_EQ(job.stall->ShortDebugString(), "after { seconds: 900 } action: \"dump\"");
  ASSERT_EQ(job.log_policies.size(), 1u);
  EXPECT_EQ(job.log_policies[0].match(), "CUDA error|synStatus");
  EXPECT_THAT(job.skip_checks, ElementsAre("a"));
  EXPECT_THAT(job.require_checks, ElementsAre("b"));
  EXPECT_EQ(job.container->ShortDebugString(),
            "image: \"img:1\" runtime: \"habana\" options: \"--ipc=host\"");
  EXPECT_EQ(job.log_dir, "logs");
  EXPECT_EQ(job.At("grace").Text(), "job.yaml:19");
  EXPECT_EQ(job.At("exclude").Text(), "job.yaml");
  EXPECT_EQ(job.HostSelection().include_at.Text(), "job.yaml:4");
}

TEST(ParseJobYaml, LeavesOutWhatWasNotWritten) {
  const Parsed parsed = Parse("hostfile: h\nmodule: pkg.train\n");
  ASSERT_EQ(parsed.Errors(), "");
  EXPECT_EQ(parsed.job.module, "pkg.train");
  EXPECT_FALSE(parsed.job.script || parsed.job.name || parsed.job.grace || parsed.job.master_port ||
               parsed.job.on_coordinator_loss || parsed.job.restart || parsed.job.num_nodes);
}

TEST(ParseJobYaml, KeepsTheTextOfScalars) {
  const Parsed parsed = ParseMore(
      "args: [yes, 1.10, 0644, null, ~, 0x1F, 1e3, true, \"\", 'it''s', -1, 2001-01-01, =, a b, "
      "\"\\u00e4\"]\n"
      "env:\n  A: yes\n  B: 1.10\n  C: 0644\n  D: ~\n  E:\n  F: null\n  G: ''\n  H: |\n    a\n    "
      "b\n");
  ASSERT_EQ(parsed.Errors(), "");
  EXPECT_THAT(parsed.job.args,
              ElementsAre("yes", "1.10", "0644", "null", "~", "0x1F", "1e3", "true", "", "it's",
                          "-1", "2001-01-01", "=", "a b", "\xC3\xA4"));
  EXPECT_EQ(ShowEnv(parsed.job.env), "A=yes|B=1.10|C=0644|D=~|E=|F=null|G=|H=a\nb\n");
}

TEST(ParseJobYaml, TellsNothingFromTheWordNull) {
  // The position that the YAML parser gives for a missing value is that of the next key.
  const Parsed parsed = ParseMore("env:\n  A:\n  null: x\n  B: &anchor null\n  C: {\n}\n");
  EXPECT_THAT(parsed.Errors(), HasSubstr("job.yaml:7: env.C must be text"));
  EXPECT_EQ(ShowEnv(parsed.job.env), "A=|null=x|B=null");
  EXPECT_EQ(ShowEnv(ParseMore("env: {A: , B: ~ , null: null, C: ~}").job.env),
            "A=|B=~|null=null|C=~");
  EXPECT_EQ(ShowEnv(ParseMore("env:\n  A:\n  ~: 1\n").job.env), "A=");  // `~` is no name.
  EXPECT_THAT(ParseMore("args: [~, null,\n  Null, NULL # x\n  ]\n").job.args,
              ElementsAre("~", "null", "Null", "NULL"));
}

TEST(ParseJobYaml, ReportsAllErrorsAtOnceWithTheirLines) {
  const Parsed parsed = ParseMore(
      "scirpt: x.py\n"                        // 3
      "grace: soon\n"                         // 4
      "grace: 30s\n"                          // 5
      "args: train\n"                         // 6
      "env: {RANK: 0, \"A B\": 1, C: [1]}\n"  // 7
      "master_port: 70000\n"                  // 8
      "bind: sockets\n"                       // 9
      "restart: {max: 3}\n"                   // 10
      "num_nodes: two\n");                    // 11
  EXPECT_EQ(parsed.Errors(),
            "job.yaml:3: unknown key 'scirpt' (did you mean 'script'?)\n"
            "job.yaml:4: grace: 'soon' is not a length of time: expected a number, found 'soon' "
            "(write for example "
            "30s, 5m or 1h30m)\n"
            "job.yaml:5: key 'grace' is given twice, first on line 4\n"
            "job.yaml:6: args must be a list such as [a, b], found text\n"
            "job.yaml:7: env: the launcher sets RANK for every rank (remove it)\n"
            "job.yaml:7: env: 'A B' is no name of a variable (letters, digits and '_', not a digit "
            "first)\n"
            "job.yaml:7: env.C must be text (quote JSON)\n"
            "job.yaml:8: master_port must be a whole number from 0 to 65535, found '70000'\n"
            "job.yaml:9: bind must be one of numa, cores, none, found 'sockets'\n"
            "job.yaml:10: unknown key 'max' in restart\n"
            "job.yaml:11: num_nodes must be a whole number from 1 to 100000, found 'two'");
}

TEST(ParseJobYaml, RefusesTabsAsIndentationAndChecksTheRest) {
  const Parsed parsed = ParseMore("env:\n\tA: 1\n\tB: 2\nbind: x\n");
  EXPECT_EQ(parsed.Errors(),
            "job.yaml:4: indented with a tab (use blanks)\n"
            "job.yaml:5: indented with a tab (use blanks)\n"
            "job.yaml:6: bind must be one of numa, cores, none, found 'x'");
}

TEST(ParseJobYaml, LeavesTabsInsideBlockScalarsAndCommentsAlone) {
  const Parsed parsed = ParseMore("env:\n  A: |\n    x\n    \ty\n\n  B: 1\n\t# note\n\t\n");
  ASSERT_EQ(parsed.Errors(), "");
  EXPECT_EQ(ShowEnv(parsed.job.env), "A=x\n\ty\n|B=1");
  EXPECT_THAT(ParseMore("env:\n  A: |\n    x\n\tB: 1\n").Errors(),
              HasSubstr("job.yaml:6: indented with a tab"));
}

TEST(ParseJobYaml, ReportsSyntaxErrorsWithTheirLine) {
  EXPECT_THAT(ParseMore("env: {A: 1\n").Errors(), HasSubstr("not valid YAML"));
  EXPECT_THAT(ParseMore("args: [a\nb: c: d\n").Errors(), HasSubstr("job.yaml:4: not valid YAML"));
  EXPECT_THAT(ParseMore("env: \"open\n").Errors(), HasSubstr("job.yaml:"));
  EXPECT_THAT(ParseMore("env: *nobody\n").Errors(), HasSubstr("job.yaml:3:"));
}

TEST(ParseJobYaml, RefusesFilesThatAreNoJob) {
  EXPECT_EQ(Parse("").Errors(), "job.yaml: the file is empty");
  EXPECT_EQ(Parse("# nothing\n").Errors(), "job.yaml: the file is empty");
  EXPECT_THAT(Parse("just text\n").Errors(), HasSubstr("job.yaml:1: a job is a map"));
  EXPECT_THAT(Parse("- a\n- b\n").Errors(), HasSubstr("job.yaml:1: a job is a map"));
  EXPECT_THAT(ParseMore("---\na: b\n").Errors(), HasSubstr("job.yaml:3: a second document"));
  EXPECT_THAT(ParseMore("name: \xFF\n").Errors(),
              HasSubstr("job.yaml:3: byte '\\xff' is not UTF-8"));
  EXPECT_THAT(Parse(std::string("a\0", 2)).Errors(), HasSubstr("NUL"));
}

TEST(ParseJobYaml, NeedsExactlyOneProgramAndOneListOfHosts) {
  EXPECT_EQ(Parse("name: x\n").Errors(),
            "job.yaml: one of the keys script, module, command is needed\n"
            "job.yaml: one of the keys hostfile, hosts is needed");
  EXPECT_EQ(Parse("script: a\nhostfile: h\nmodule: b\ncommand: [c]\nhosts: [x]\n").Errors(),
            "job.yaml:3: module and script (line 1) exclude each other\n"
            "job.yaml:4: command and script (line 1) exclude each other\n"
            "job.yaml:5: hosts and hostfile (line 2) exclude each other");
}

TEST(ParseJobYaml, NeedsNoHostsWhereFlagsNameThem) {
  Diagnostics diagnostics;
  ParseJobYaml("script: a\n", "job.yaml", diagnostics, JobFileHosts::kMayLack);
  EXPECT_EQ(diagnostics.ErrorText(), "");
  ParseJobYaml("script: a\nhostfile: h\nhosts: [x]\n", "job.yaml", diagnostics,
               JobFileHosts::kMayLack);
  EXPECT_EQ(diagnostics.ErrorText(), "job.yaml:3: hosts and hostfile (line 2) exclude each other");
}

TEST(ParseJobYaml, RefusesSelectionsThatExcludeEachOther) {
  EXPECT_THAT(ParseMore("include: a\nexclude: b\nnum_nodes: 1\n").Errors(),
              AllOf(HasSubstr("job.yaml:4: exclude and include (line 3) exclude each other"),
                    HasSubstr("job.yaml:5: num_nodes and include (line 3)")));
}

TEST(ParseJobYaml, ReadsCommands) {
  const Parsed parsed =
      Parse("hostfile: h\ncommand: [/bin/bash, -c, \"A=0 python -u x.py \\\"a b\\\"\", \"\"]\n");
  ASSERT_EQ(parsed.Errors(), "");
  EXPECT_THAT(parsed.job.command, ElementsAre("/bin/bash", "-c", "A=0 python -u x.py \"a b\"", ""));
  EXPECT_THAT(Parse("hostfile: h\ncommand: []\n").Errors(),
              HasSubstr("job.yaml:2: command must begin with a program"));
  EXPECT_THAT(Parse("hostfile: h\ncommand: ['', x]\n").Errors(), HasSubstr("job.yaml:2:"));
  EXPECT_THAT(Parse("hostfile: h\ncommand: echo hi\n").Errors(),
              HasSubstr("job.yaml:2: command must be a list"));
  EXPECT_THAT(ParseMore("args:\n- --lr: 3\n").Errors(),
              HasSubstr("job.yaml:4: every item of args must be text"));
}

TEST(ParseJobYaml, ReadsHosts) {
  const Parsed parsed = Parse(
      "script: s\nhosts:\n- {host: node-1, slots: 8, addr: 10.0.0.1}\n- node-2\n- host: n[1-2]\n  "
      "slots: 4\n"
      "- {host: c, modules: [4, 5]}\n- {host: d, modules: 0-1}\n- trainer@e\n");
  ASSERT_EQ(parsed.Errors(), "");
  EXPECT_EQ(ShowHosts(parsed.job.hosts), "node-1:8 node-2:0 n1:4 n2:4 c:2[4,5] d:2[0,1] e:0");
  EXPECT_EQ(parsed.job.hosts[0].address(), "10.0.0.1");
  EXPECT_EQ(parsed.job.hosts[2].source(), "job.yaml:5");
  EXPECT_THAT(parsed.Warnings(), HasSubstr("job.yaml:9: user 'trainer' is ignored"));
}

TEST(ParseJobYaml, RefusesHostsLikeAHostfile) {
  EXPECT_THAT(Parse("script: s\nhosts: [{host: a, slots: 0}]\n").Errors(),
              HasSubstr("job.yaml:2: slots must be"));
  EXPECT_THAT(Parse("script: s\nhosts: [{host: a, slots: 8x}]\n").Errors(),
              HasSubstr("job.yaml:2: slots must be"));
  EXPECT_THAT(Parse("script: s\nhosts:\n- {host: a, slots: 1}\n- {host: a, slots: 1}\n").Errors(),
              HasSubstr("job.yaml:4: host 'a' is already on line 3"));
  EXPECT_THAT(Parse("script: s\nhosts: [{slots: 8}]\n").Errors(),
              HasSubstr("job.yaml:2: a host needs the key 'host'"));
  EXPECT_THAT(Parse("script: s\nhosts: [{host: a, gpus: 8}]\n").Errors(),
              HasSubstr("unknown key 'gpus' in hosts"));
  EXPECT_THAT(Parse("script: s\nhosts: ['a:8']\n").Errors(), HasSubstr("port"));
  EXPECT_THAT(Parse("script: s\nhosts: []\n").Errors(),
              HasSubstr("job.yaml:2: hosts names no host"));
  EXPECT_THAT(Parse("script: s\nhosts: a\n").Errors(),
              HasSubstr("job.yaml:2: hosts must be a list"));
  EXPECT_THAT(Parse("script: s\nhosts: [[a]]\n").Errors(),
              HasSubstr("job.yaml:2: hosts must be a map"));
  EXPECT_THAT(Parse("script: s\nhosts: [{host: a, addr: 'x:1'}, {host: b, port: x}]\n").Errors(),
              AllOf(HasSubstr("addr:"), HasSubstr("port must be")));
}

TEST(ParseJobYaml, WarnsAboutEnvThatIsNotWhatItSeems) {
  const Parsed parsed =
      ParseMore("env:\n  LIBS: /x:$LD_LIBRARY_PATH\n  HOSTNAME: x\n  PRICE: 5$\n");
  EXPECT_EQ(parsed.Errors(), "");
  EXPECT_EQ(ShowEnv(parsed.job.env), "LIBS=/x:$LD_LIBRARY_PATH|HOSTNAME=x|PRICE=5$");
  EXPECT_EQ(parsed.Warnings(),
            "job.yaml:4: env.LIBS: '$' stays text here, only env files expand variables\n"
            "job.yaml:5: env: HOSTNAME belongs to one host, and now has the same value on all");
}

TEST(ParseJobYaml, RefusesLauncherVariablesInEveryEnv) {
  const Parsed parsed = ParseMore(
      "env: {MASTER_ADDR: x}\nnode_env: {n: {HLS_MODULE_ID: 1}}\nnode_overrides: {n: {env: "
      "{WORLD_SIZE: 2}}}\n"
      "forward_env: [RANK, HOSTNAME, -WANDB_, 'A B']\n");
  EXPECT_THAT(parsed.Errors(),
              AllOf(HasSubstr("job.yaml:3: env: the launcher sets MASTER_ADDR"),
                    HasSubstr("job.yaml:4: node_env.n: the launcher sets HLS_MODULE_ID"),
                    HasSubstr("job.yaml:5: node_overrides.n.env: the launcher sets WORLD_SIZE"),
                    HasSubstr("job.yaml:6: forward_env: the launcher sets RANK"),
                    HasSubstr("job.yaml:6: forward_env: HOSTNAME belongs to one host")));
  EXPECT_THAT(parsed.Errors(), HasSubstr("forward_env: expected NAME"));
}

TEST(ParseJobYaml, ExpandsRangesOfNodeSettingsInOrder) {
  const Parsed parsed = ParseMore(
      "node_env:\n  'n[1-2]': {A: 1}\n  n2: {A: 2}\nnode_overrides:\n  n3: {cwd: /x}\n  'n[2-3]': "
      "{python: p}\n");
  ASSERT_EQ(parsed.Errors(), "");
  ASSERT_EQ(parsed.job.nodes.size(), 3u);
  EXPECT_EQ(parsed.job.nodes[0].host, "n1");
  EXPECT_EQ(ShowEnv(parsed.job.nodes[1].env), "A=1|A=2");
  EXPECT_EQ(parsed.job.nodes[1].python, "p");
  EXPECT_EQ(parsed.job.nodes[2].cwd, "/x");
  EXPECT_EQ(parsed.job.nodes[2].python, "p");
  EXPECT_THAT(ParseMore("node_env: {'n[1-100000]': {A: 1, B: 2, C: 3}}\n").Errors(),
              HasSubstr("job.yaml:3:"));
  EXPECT_THAT(ParseMore("node_env: {'a:1': {A: 1}}\n").Errors(), HasSubstr("job.yaml:3:"));
}

TEST(ParseJobYaml, ReadsAliasesAndBoundsThem) {
  const Parsed parsed = ParseMore("env: &common {A: 1}\nnode_env: {n: *common}\n");
  ASSERT_EQ(parsed.Errors(), "");
  EXPECT_EQ(ShowEnv(parsed.job.nodes[0].env), "A=1");

  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += fmt::format("a{0}: &a{0} [", i);
    for (int n = 0; n < 10; ++n) bomb += fmt::format("*a{}{}", i - 1, n == 9 ? "]\n" : ", ");
  }
  EXPECT_THAT(ParseMore(bomb).Errors(), HasSubstr("aliases stand for too much text"));
  EXPECT_THAT(ParseMore("args: &a [*a]\n").Errors(),
              HasSubstr("job.yaml:3: alias to something that contains it"));
  EXPECT_THAT(ParseMore("env: {<<: {A: 1}}\n").Errors(), HasSubstr("'<<' does not merge here"));
}

TEST(ParseJobYaml, BoundsSizeDepthAndNumberOfValues) {
  EXPECT_THAT(Parse(std::string(kMaxJobFileBytes + 1, ' ')).Errors(),
              HasSubstr("at most 1048576 are read"));
  EXPECT_THAT(ParseMore("args: " + std::string(100, '[') + std::string(100, ']')).Errors(),
              HasSubstr("job.yaml:3: more than 32 levels"));
  EXPECT_THAT(ParseMore("args: " + std::string(200000, '[')).Errors(),
              HasSubstr("job.yaml:3: more than 32 levels"));
  std::string many = "args: [";
  for (int i = 0; i < 100001; ++i) many += "a,";
  EXPECT_THAT(ParseMore(many + "]").Errors(), HasSubstr("more than 100000 values"));
}

TEST(ParseJobYaml, RefusesKeysAndTagsOfAnotherWorld) {
  EXPECT_THAT(ParseMore("env: {[a]: 1}\n").Errors(), HasSubstr("a key must be one word"));
  EXPECT_THAT(ParseMore("name: !!python/object x\n").Errors(), HasSubstr("tags such as"));
  EXPECT_EQ(ParseMore("name: !!str 5\n").Errors(), "");
  EXPECT_THAT(ParseMore("name: \"a\\0b\"\n").Errors(), HasSubstr("job.yaml:3: NUL"));
}

TEST(ParseJobYaml, ChecksWordsNumbersAndLengths) {
  const std::pair<std::string, std::string> cases[] = {
      {"name: \"a\\nb\"", "control characters"},
      {"name: {a: b}", "name must be text, found a map"},
      {"name:", "name must be text, found nothing"},
      {"log_dir: ''", "log_dir must not be empty"},
      {"user: 'a b'", "no name of a user"},
      {"user: -x", "no name of a user"},
      {"cwd: [a]", "cwd must be text, found a list"},
      {"env: [A=1]", "env must be a map such as {key: value}, found a list"},
      {"env: API_KEY=demo", "env must be a map such as {key: value}, found text"},
      {"env_files: a", "env_files must be a list"},
      {"env_files: ['']", "an item of env_files is empty"},
      {"devices: gpu", "devices must be one of auto, gaudi, none"},
      {"master_addr: 'a:1'", "master_port"},
      {"master_addr: u@h", "no host name or address"},
      {"master_port: -1", "master_port must be a whole number"},
      {"num_nodes: 0", "num_nodes must be a whole number from 1"},
      {"slots_per_node: 1.5", "slots_per_node must be a whole number"},
      {"grace: -1s", "grace:"},
      {"grace: [1]", "grace must be a length of time"},
      {"log_quota: 5MB", "log_quota: '5MB' is not a number of bytes: unknown unit 'MB'"},
      {"log_quota: [1]", "log_quota must be a number of bytes such as 512MiB, found a list"},
      {"log_quota: 1023KiB", "log_quota must be at least 1048576 bytes, found '1023KiB'"},
      {"start_timeout: 0s", "start_timeout must be longer than nothing"},
      {"on_coordinator_loss: stop", "keep or 'stop-after 60s'"},
      {"on_coordinator_loss: stop-after", "keep or 'stop-after 60s'"},
      {"on_coordinator_loss: stop-after x", "not a length of time"},
      {"on_coordinator_loss: stop-after 0s", "longer than nothing"},
      {"restart: 3", "restart must be a map"},
      {"restart: {on: [always]}", "every item of restart.on must be one of node-lost, rank-failed"},
      {"restart: {max_attempts: -1}", "restart.max_attempts"},
      {"stall: {action: dump}", "stall needs the key 'after'"},
      {"stall: {after: 5m, action: panic}",
       "stall.action must be one of none, dump, restart, fail"},
      {"log_policies: {match: x}", "log_policies must be a list"},
      {"log_policies: [{match: x}]", "needs the key 'action'"},
      {"log_policies: [{action: exclude-node}]", "needs the key 'match'"},
      {"log_policies: [{match: x, action: cry}]", "log_policies.action must be exclude-node"},
      {"checks: {skip: [a], require: [a]}", "both skipped and required"},
      {"checks: {omit: [a]}", "unknown key 'omit' in checks"},
      {"container: {runtime: habana}", "container needs the key 'image'"},
      {"container: {image: ''}", "container.image"},
      {"container: {image: --rm}", "container.image: '--rm' is an option, not an image"},
      {"container: {image: i, runtime: -x}", "is no name of a runtime"},
      {"container: {image: i, engine: lxc}", "container.engine must be one of docker, podman"},
      {"container: {image: i, privileged: 1}", "container.privileged must be one of true, false"},
      {"container: {image: i, options: [--name=x]}",
       "container.options: the option '--name=x' is not for jobs: Muster names containers"},
      {"container: {image: i, options: [--rm]}", "Muster removes containers itself"},
      {"container: {image: i, options: [-dP]}", "the engine waits for"},
      {"container: {image: i, options: [-it]}", "Muster reads the output"},
      {"container: {image: i, options: [--cidfile, f]}", "Muster finds containers by their labels"},
      {"container: {image: i, options: [-eA=b]}", "variables belong in env"},
      {"container: {image: i, options: [--privileged]}", "privileged: true"},
      {"container: {image: i, options: [--shm-size=1g, other]}", "neither an option nor the value"},
      {"container: {image: i, options: [--init, other]}", "neither an option nor the value"},
      {"container: {image: i, options: [-v, /a:/a, --read-only]}", ""},
      {"container: {image: i, options: [-Pv, /a:/a, --device, /dev/x]}", ""},
      // A switch that is not known here would leave the word for the image.
      {"container: {image: i, options: [--new-switch, other]}",
       "if it is that of '--new-switch', write both as one word, --new-switch=other"},
      {"container: {image: i, options: [--new-switch, --new=other, -Z]}", ""},
      {"container: {image: i, options: [-vx, other]}", "write both as one word"},
      {"container: {image: i, options: [--init, -v]}", "the option '-v' has no value"},
      {"container: {image: i, options: [--rootfs]}", "a folder of the node"},
      {"container: {image: i, options: [--]}", "is no option"},
      {"container: {image: i, options: [--root=/x]}", "leads to another engine or storage"},
      {"container: {image: i, options: [-l, muster.job=x]}", "are Muster's"},
      {"container: {image: i, options: [-lmuster.job=x]}", "are Muster's"},
      {"container: {image: i, options: [--label=muster.job=x]}", "are Muster's"},
      {"container: {image: i, options: [-Pl, muster.job=x]}", "are Muster's"},
      {"container: {image: i, options: [-Plmuster.job=x]}", "are Muster's"},
      {"container: {image: i, options: [-l=muster.job=x]}", "are Muster's"},
      {"container: {image: i, options: [--label=team=a, -l, b=c]}", ""},
      {"container: {image: i, options: [-Pl, b=c, --cpu-rt-runtime, '9500']}", ""},
      {"container: {image: i, engine: podman, privileged: true, options: [-v, '/d:/d', "
       "--init=false]}",
       ""},
      {"log_dir: ~", ""},
  };
  for (const auto& [line, expected] : cases) {
    const std::string errors = Parse("hostfile: h\nscript: s\n" + line + "\n").Errors();
    if (expected.empty()) {
      EXPECT_EQ(errors, "") << line;
    } else {
      EXPECT_THAT(errors, AllOf(HasSubstr("job.yaml:3: "), HasSubstr(expected))) << line;
    }
  }
}

TEST(ParseJobYaml, ReadsWindowsLineEndsAndAByteOrderMark) {
  const Parsed parsed = Parse(
      "\xEF\xBB\xBFhostfile: h\r\nscript: s.py\r\nenv:\r\n  A: x\r\n  B: null\r\nbind: x\r\n");
  EXPECT_EQ(parsed.Errors(), "job.yaml:6: bind must be one of numa, cores, none, found 'x'");
  EXPECT_EQ(parsed.job.script, "s.py");
  EXPECT_EQ(ShowEnv(parsed.job.env), "A=x|B=null");
}

TEST(ParseJobYaml, ReadsProcessorsToBindTo) {
  EXPECT_EQ(ParseMore("bind_core_list: 0-3,5, 4\n").job.bind_core_list, "0-5");
  EXPECT_EQ(ParseMore("bind_core_list: 7\nbind: numa\n").Errors(), "");
  EXPECT_EQ(ParseMore("bind_core_list: 3-1\n").Errors(),
            "job.yaml:3: bind_core_list: expected processors such as 0-9,20-29, got "
            "'3-1'");
  EXPECT_EQ(ParseMore("bind: none\nbind_core_list: 0-3\n").Errors(),
            "job.yaml:4: bind_core_list contradicts bind: none");
}

}  // namespace
}  // namespace muster
