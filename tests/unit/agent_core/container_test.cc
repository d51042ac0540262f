// What a container engine is told for a rank.
#include "agent/core/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/core/compose.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

v1::LaunchSpec Launch() {
  v1::LaunchSpec launch;
  for (const char* word : {"python3", "-u", "t.py", "", "a b", "$HOME"}) launch.add_argv(word);
  launch.set_working_directory("/data/run");
  launch.set_script("t.py");
  launch.mutable_container()->set_image("img:1");
  v1::RankSpec& rank = *launch.add_ranks();
  rank.set_rank(5);
  rank.set_slot(3);
  v1::EnvPair& owned = *rank.add_env();
  owned.set_name("RANK");
  owned.set_value("5");
  return launch;
}

void Set(v1::LaunchSpec& launch, const std::string& name, const std::string& value) {
  v1::EnvAssignment& assignment = *launch.add_env();
  assignment.set_name(name);
  assignment.add_parts()->set_literal(value);
}

ComposeContext Context() {
  ComposeContext context;
  context.attempt = {JobId("j1"), 2};
  context.node = NodeId("node-1");
  context.environ = {"PATH=/agent/bin", "LD_LIBRARY_PATH=/agent/lib", "AGENT_ONLY=x", "HOME=/root"};
  context.home = "/root";
  context.state = "00ff";
  context.container_host.docker = {"/usr/bin/docker", true};
  context.container_host.podman = {"/usr/bin/podman", true};
  context.container_host.open_files = 4096;
  context.container_host.locked_bytes = 65536;
  return context;
}

RunAs Bob() {
  return {.self = false,
          .name = "bob",
          .uid = 1001,
          .gid = 100,
          .groups = {100, 27},
          .home = "/home/bob",
          .shell = "/bin/sh"};
}

internal::ShimBootstrap Compose(const v1::LaunchSpec& launch, const ComposeContext& context) {
  absl::StatusOr<internal::ShimBootstrap> made = ComposeBootstrap(launch, context);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : internal::ShimBootstrap();
}

Words Argv(const v1::LaunchSpec& launch, const ComposeContext& context = Context()) {
  const internal::ShimBootstrap bootstrap = Compose(launch, context);
  if (bootstrap.ranks().empty()) return {};
  return {bootstrap.ranks(0).argv().begin(), bootstrap.ranks(0).argv().end()};
}

// True when `first` is followed by `second`.
bool HasPair(const Words& words, const std::string& first, const std::string& second) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == first && words[i + 1] == second) return true;
  }
  return false;
}

TEST(Contain, GivesDockerEverythingThatARankNeeds) {
  EXPECT_THAT(
      Argv(Launch()),
      ElementsAre("/usr/bin/docker", "run", "--name=muster-j1-2-5", "--label=muster.job=j1",
                  "--label=muster.attempt=2", "--label=muster.state=00ff",
                  "--label=muster.node=node-1", "--label=muster.rank=5", "--pull=never",
                  "--log-driver=none", "--init", "--network=host", "--ipc=host",
                  "--ulimit=memlock=-1:-1", "--ulimit=nofile=1048576:1048576", "--cap-add=sys_nice",
                  "--user=0:0", "-v", "/data/run:/data/run", "-w", "/data/run", "-e",
                  "MUSTER_ATTEMPT", "-e", "MUSTER_JOB_ID", "-e", "MUSTER_NODE", "-e",
                  "OMPI_MCA_btl_vader_single_copy_mechanism", "-e", "PYTHONUNBUFFERED", "-e",
                  "RANK", "-e", "MASTER_ADDR", "-e", "MASTER_PORT", "--", "img:1", "python3", "-u",
                  "t.py", "", "a b", "$HOME"));
}

TEST(Contain, GivesPodmanWhatItTakesInAnotherWay) {
  v1::LaunchSpec launch = Launch();
  launch.mutable_container()->set_engine("podman");
  launch.mutable_container()->set_runtime("habana");
  const Words argv = Argv(launch);
  EXPECT_EQ(Words(argv.begin(), argv.begin() + 3),
            (Words{"/usr/bin/podman", "--runtime=habana", "run"}));
  EXPECT_THAT(argv, IsSupersetOf({"--http-proxy=false", "--ulimit=memlock=65536:65536",
                                  "--ulimit=nofile=4096:4096"}));
  EXPECT_EQ(Compose(launch, Context()).engine().options(0), "--runtime=habana");

  ComposeContext mighty = Context();
  mighty.container_host.may_raise_limits = true;
  EXPECT_THAT(Argv(launch, mighty),
              IsSupersetOf({"--ulimit=memlock=-1:-1", "--ulimit=nofile=1048576:1048576"}));
}

TEST(Contain, RunsAsTheUserOfTheJob) {
  ComposeContext context = Context();
  context.user = Bob();
  EXPECT_THAT(Argv(Launch(), context), IsSupersetOf({"--user=1001:100", "--group-add=27"}));
  v1::LaunchSpec podman = Launch();
  podman.mutable_container()->set_engine("podman");
  const Words argv = Argv(podman, context);
  EXPECT_THAT(argv, IsSupersetOf({"--user=1001:100", "--userns=keep-id"}));
  EXPECT_THAT(argv, Not(Contains(StartsWith("--group-add"))));
}

TEST(Contain, PutsNoValueOfAVariableOnTheCommandLineAndNothingOfTheAgentIntoTheContainer) {
  v1::LaunchSpec launch = Launch();
  Set(launch, "HF_TOKEN", "s3cret\nof two lines");
  const internal::ShimBootstrap bootstrap = Compose(launch, Context());
  const internal::ShimRank& rank = bootstrap.ranks(0);
  for (const std::string& word : rank.argv()) EXPECT_THAT(word, Not(HasSubstr("s3cret")));
  const Words argv(rank.argv().begin(), rank.argv().end());
  EXPECT_TRUE(HasPair(argv, "-e", "HF_TOKEN"));
  for (const char* name : {"AGENT_ONLY", "PATH", "LD_LIBRARY_PATH", "HOME", "PWD"}) {
    EXPECT_FALSE(HasPair(argv, "-e", name)) << name;
  }
  // The client itself has the agent's environment, and the values.
  EXPECT_THAT(rank.env(), IsSupersetOf({"HF_TOKEN=s3cret\nof two lines", "AGENT_ONLY=x",
                                        "PATH=/agent/bin", "RANK=5"}));
  EXPECT_THAT(rank.env_file(), IsEmpty());
  EXPECT_EQ(rank.container(), "muster-j1-2-5");
}

TEST(Contain, WhatTheClientHeedsGoesPastIt) {
  v1::LaunchSpec launch = Launch();
  Set(launch, "LD_PRELOAD", "/usr/lib/libtcmalloc.so");
  Set(launch, "PATH", "/opt/x y/bin");
  Set(launch, "DOCKER_HOST", "tcp://elsewhere");
  const internal::ShimBootstrap bootstrap = Compose(launch, Context());
  const internal::ShimRank& rank = bootstrap.ranks(0);
  EXPECT_EQ(rank.env_file(),
            "DOCKER_HOST=tcp://elsewhere\nLD_PRELOAD=/usr/lib/libtcmalloc.so\nPATH=/opt/x y/bin\n");
  EXPECT_THAT(rank.argv(), Contains("--env-file=/dev/stdin"));
  EXPECT_THAT(rank.env(), Contains("PATH=/agent/bin"));
  EXPECT_THAT(rank.env(), Not(Contains(StartsWith("LD_PRELOAD="))));
  EXPECT_FALSE(HasPair({rank.argv().begin(), rank.argv().end()}, "-e", "PATH"));

  Set(launch, "LD_AUDIT", "a\nb");
  const absl::Status refused = ComposeBootstrap(launch, Context()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("LD_AUDIT has a line break"));
}

TEST(Contain, AReferenceToTheAgentsEnvironmentIsResolvedThereAndSaid) {
  v1::LaunchSpec launch = Launch();
  Set(launch, "MY_LIB", "/my");
  v1::EnvAssignment& assignment = *launch.add_env();
  assignment.set_name("ALL_LIBS");
  assignment.set_source(".deepspeed_env:3");
  assignment.add_parts()->set_variable("MY_LIB");
  assignment.add_parts()->set_literal(":");
  assignment.add_parts()->set_variable("LD_LIBRARY_PATH");
  const internal::ShimBootstrap bootstrap = Compose(launch, Context());
  EXPECT_THAT(bootstrap.ranks(0).env(), Contains("ALL_LIBS=/my:/agent/lib"));
  EXPECT_THAT(bootstrap.warnings(),
              ElementsAre("ALL_LIBS (.deepspeed_env:3) refers to LD_LIBRARY_PATH, which is taken "
                          "from the agent's environment and not from the image's"));
}

TEST(Contain, GivesCardsByTheRuntimeOrByTheirDeviceNodes) {
  v1::LaunchSpec launch = Launch();
  launch.set_slots_are_cards(true);
  ComposeContext context = Context();
  context.container_host.device_nodes = {"/dev/accel/accel0", "/dev/accel/accel1",
                                         "/dev/accel/accel_controlD1", "/dev/infiniband/uverbs0"};
  v1::Device card;
  card.set_module_id(3);
  card.set_device_node("/dev/accel/accel1");
  v1::DeviceInventory devices;
  *devices.add_devices() = card;
  context.devices = &devices;
  EXPECT_THAT(Argv(launch, context), AllOf(IsSupersetOf({"--device=/dev/accel/accel1",
                                                         "--device=/dev/accel/accel_controlD1",
                                                         "--device=/dev/infiniband/uverbs0"}),
                                           Not(Contains("--device=/dev/accel/accel0"))));
  launch.mutable_container()->set_runtime("habana");
  const internal::ShimBootstrap habana = Compose(launch, context);
  EXPECT_THAT(habana.ranks(0).argv(), Not(Contains(StartsWith("--device"))));
  EXPECT_THAT(habana.ranks(0).argv(), Contains("--runtime=habana"));
  EXPECT_THAT(habana.ranks(0).env(), Contains("HABANA_VISIBLE_DEVICES=all"));

  launch.mutable_container()->clear_runtime();
  context.devices = nullptr;
  EXPECT_THAT(std::string(ComposeBootstrap(launch, context).status().message()),
              HasSubstr("card 3 has no device node"));
}

TEST(Contain, GivesTheRuntimeTheCardsOfTheJobAndNoOthers) {
  v1::LaunchSpec launch = Launch();
  launch.mutable_container()->set_runtime("habana");
  // Without leased cards none.
  EXPECT_THAT(Compose(launch, Context()).ranks(0).env(),
              Not(Contains(StartsWith("HABANA_VISIBLE_DEVICES="))));
  launch.set_slots_are_cards(true);
  Set(launch, "HABANA_VISIBLE_DEVICES", "0,1");
  const internal::ShimBootstrap bootstrap = Compose(launch, Context());
  EXPECT_THAT(bootstrap.ranks(0).env(), Contains("HABANA_VISIBLE_DEVICES=all"));
  EXPECT_THAT(bootstrap.warnings(), ElementsAre(HasSubstr("HABANA_VISIBLE_DEVICES of the job")));
}

TEST(Contain, MountsTheFilesOfSimulatedCardsWhereDevicesWouldBe) {
  v1::LaunchSpec launch = Launch();
  launch.set_slots_are_cards(true);
  ComposeContext context = Context();
  context.container_host.sysroot = "/sim";
  context.container_host.device_nodes = {"/sim/dev/accel/accel1", "/sim/dev/accel/accel_controlD1",
                                         "/sim/dev/infiniband/uverbs0"};
  v1::DeviceInventory devices;
  v1::Device& card = *devices.add_devices();
  card.set_module_id(3);
  card.set_device_node("/sim/dev/accel/accel1");
  context.devices = &devices;
  const Words argv = Argv(launch, context);
  for (const char* node :
       {"/dev/accel/accel1", "/dev/accel/accel_controlD1", "/dev/infiniband/uverbs0"}) {
    EXPECT_TRUE(HasPair(argv, "-v", std::string("/sim") + node + ":" + node)) << node;
  }
  EXPECT_THAT(argv, Not(Contains(StartsWith("--device"))));
  launch.mutable_container()->set_runtime("habana");
  EXPECT_THAT(Compose(launch, context).warnings(),
              ElementsAre(HasSubstr("the cards of this node are simulated")));
}

TEST(Contain, WhatTheRankHasDecidesOfTheSecondPortAndNotWhatTheClientHas) {
  ComposeContext context = Context();
  context.environ.push_back("PT_ENABLE_INTER_HOST_CACHING=1");
  v1::LaunchSpec launch = Launch();
  launch.mutable_rendezvous();
  EXPECT_FALSE(Compose(launch, context).reserve_companion_port());
  Set(launch, "PT_ENABLE_INTER_HOST_CACHING", "1");
  EXPECT_TRUE(Compose(launch, context).reserve_companion_port());
  EXPECT_TRUE(Compose(launch, Context()).reserve_companion_port());
  Set(launch, "PT_ENABLE_INTER_HOST_CACHING", "0");
  EXPECT_FALSE(Compose(launch, context).reserve_companion_port());
  // Without a container it has the agent's.
  launch.clear_container();
  launch.clear_env();
  EXPECT_TRUE(Compose(launch, context).reserve_companion_port());
  EXPECT_FALSE(Compose(launch, Context()).reserve_companion_port());
  launch.clear_rendezvous();
  EXPECT_FALSE(Compose(launch, context).reserve_companion_port());
}

TEST(Contain, MountsTheFolderOfAScriptThatIsElsewhere) {
  v1::LaunchSpec launch = Launch();
  for (const auto& [script, mount] :
       {std::pair("/opt/code/t.py", "/opt/code:/opt/code"),
        std::pair("../other/t.py", "/data/other:/data/other"), std::pair("/t.py", "/t.py:/t.py")}) {
    launch.set_script(script);
    EXPECT_TRUE(HasPair(Argv(launch), "-v", mount)) << script;
  }
  launch.set_script("sub/t.py");
  const Words argv = Argv(launch);
  EXPECT_EQ(std::count(argv.begin(), argv.end(), "-v"), 1);
  launch.set_working_directory("/a:b");
  EXPECT_TRUE(HasPair(Argv(launch), "--mount", "type=bind,source=/a:b,target=/a:b"));
}

TEST(Contain, TakesTheOptionsOfTheUserLast) {
  v1::LaunchSpec launch = Launch();
  launch.mutable_container()->set_privileged(true);
  launch.mutable_container()->add_options("--shm-size=1g");
  launch.mutable_container()->add_options("--pull=always");
  const internal::ShimBootstrap bootstrap = Compose(launch, Context());
  const Words argv(bootstrap.ranks(0).argv().begin(), bootstrap.ranks(0).argv().end());
  // An option whose value is missing takes "--", never the image.
  EXPECT_TRUE(HasPair(argv, "--pull=always", "--"));
  EXPECT_TRUE(HasPair(argv, "--", "img:1"));
  EXPECT_THAT(argv, Contains("--privileged"));
  // Who asks for a pull need not have the image.
  EXPECT_EQ(bootstrap.engine().image(), "");
  EXPECT_EQ(Compose(Launch(), Context()).engine().image(), "img:1");
}

TEST(ChooseEngine, TakesTheFirstThatTheNodeHasOrTheOneThatTheJobNames) {
  ComposeContext context = Context();
  EXPECT_EQ(Compose(Launch(), context).engine().name(), "docker");
  context.container_host.docker.program.clear();
  EXPECT_EQ(Compose(Launch(), context).engine().name(), "podman");
  v1::LaunchSpec docker = Launch();
  docker.mutable_container()->set_engine("docker");
  absl::Status refused = ComposeBootstrap(docker, context).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the PATH of the agent has no docker"));
  context.container_host.podman.program.clear();
  EXPECT_THAT(std::string(ComposeBootstrap(Launch(), context).status().message()),
              HasSubstr("neither docker nor podman"));
}

TEST(ChooseEngine, PassesOverOneThatDoesNotWorkAndSaysWhy) {
  ComposeContext context = Context();
  context.container_host.docker.refusal = "no daemon (start it)";
  const internal::ShimBootstrap bootstrap = Compose(Launch(), context);
  EXPECT_EQ(bootstrap.engine().name(), "podman");
  EXPECT_THAT(bootstrap.warnings(), ElementsAre(AllOf(StartsWith("podman runs the containers"),
                                                      HasSubstr("docker: no daemon (start it)"))));
  v1::LaunchSpec docker = Launch();
  docker.mutable_container()->set_engine("docker");
  EXPECT_THAT(
      std::string(ComposeBootstrap(docker, context).status().message()),
      AllOf(HasSubstr("no engine works here: docker: no daemon"), Not(HasSubstr("podman"))));
  context.container_host.podman.refusal = "no storage (make some)";
  const absl::Status refused = ComposeBootstrap(Launch(), context).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("docker: no daemon (start it); podman: no storage (make some)"));
}

TEST(ChooseEngine, SaysWhenThereIsNoInit) {
  ComposeContext context = Context();
  context.container_host.docker.has_init = false;
  const internal::ShimBootstrap bootstrap = Compose(Launch(), context);
  EXPECT_THAT(bootstrap.warnings(), ElementsAre(HasSubstr("has no init program here")));
  EXPECT_THAT(bootstrap.ranks(0).argv(), Not(Contains("--init")));
}

}  // namespace
}  // namespace muster
