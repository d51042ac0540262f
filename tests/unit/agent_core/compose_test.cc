#include "agent/core/compose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ComposeContext Context(std::vector<std::string> environ = {}) {
  ComposeContext context;
  context.attempt = {JobId("j1"), 2};
  context.node = NodeId("node-1");
  context.environ = std::move(environ);
  context.home = "/home/alice";
  return context;
}

v1::LaunchSpec OneRank() {
  v1::LaunchSpec launch;
  launch.add_argv("prog");
  launch.set_working_directory("/work");
  v1::RankSpec& rank = *launch.add_ranks();
  rank.set_rank(5);
  rank.set_local_rank(1);
  rank.set_slot(3);
  return launch;
}

v1::EnvAssignment& Assign(v1::LaunchSpec& launch, const std::string& name) {
  v1::EnvAssignment& assignment = *launch.add_env();
  assignment.set_name(name);
  return assignment;
}

void AssignText(v1::LaunchSpec& launch, const std::string& name, const std::string& value) {
  Assign(launch, name).add_parts()->set_literal(value);
}

std::vector<std::string> EnvOf(const v1::LaunchSpec& launch, const ComposeContext& context) {
  const internal::ShimBootstrap bootstrap = ComposeBootstrap(launch, context).value();
  return {bootstrap.ranks(0).env().begin(), bootstrap.ranks(0).env().end()};
}

RunAs Bob() {
  return {.self = false,
          .name = "bob",
          .uid = 1001,
          .gid = 100,
          .groups = {100, 27},
          .home = "/home/bob",
          .shell = "/bin/zsh"};
}

TEST(ComposeBootstrap, AnotherUserGetsNothingOfTheAgentsUser) {
  ComposeContext context =
      Context({"HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "MAIL=/var/mail/root",
               "XDG_RUNTIME_DIR=/run/user/0", "SUDO_USER=eve", "SSH_AUTH_SOCK=/tmp/s", "PATH=/bin",
               "LD_LIBRARY_PATH=/opt/habanalabs", "_=/bin/agent"});
  context.user = Bob();
  v1::LaunchSpec launch = OneRank();
  Assign(launch, "CACHE").add_parts()->set_home(true);
  EXPECT_THAT(
      EnvOf(launch, context),
      ElementsAre("CACHE=/home/bob", "HOME=/home/bob", "LD_LIBRARY_PATH=/opt/habanalabs",
                  "LOGNAME=bob", "MUSTER_ATTEMPT=2", "MUSTER_JOB_ID=j1", "MUSTER_NODE=node-1",
                  "PATH=/bin", "PWD=/work", "PYTHONUNBUFFERED=1", "SHELL=/bin/zsh", "USER=bob"));
}

TEST(ComposeBootstrap, TheShimIsToldWhoTheRanksAre) {
  EXPECT_FALSE(ComposeBootstrap(OneRank(), Context())->has_run_as());
  ComposeContext context = Context();
  context.user = Bob();
  const internal::ShimRunAs run_as = ComposeBootstrap(OneRank(), context)->run_as();
  EXPECT_EQ(run_as.name(), "bob");
  EXPECT_EQ(run_as.uid(), 1001u);
  EXPECT_EQ(run_as.gid(), 100u);
  EXPECT_THAT(run_as.groups(), ElementsAre(100u, 27u));
}

TEST(ComposeBootstrap, TheJobMaySetWhatItLikesForAnotherUserToo) {
  ComposeContext context = Context();
  context.user = Bob();
  v1::LaunchSpec launch = OneRank();
  AssignText(launch, "HOME", "/scratch/bob");
  EXPECT_THAT(EnvOf(launch, context), Contains("HOME=/scratch/bob"));
}

TEST(ComposeBootstrap, TakesTheAgentsEnvironmentWithoutWhatBelongsToItsService) {
  const std::vector<std::string> env =
      EnvOf(OneRank(), Context({"HOME=/root", "PATH=/bin", "NOTIFY_SOCKET=/run/n", "LISTEN_FDS=1",
                                "WATCHDOG_USEC=3", "GRPC_VERBOSITY=DEBUG", "JOURNAL_STREAM=8:1",
                                "INVOCATION_ID=x", "LISTENER=mine", "noequals", "=odd"}));
  EXPECT_THAT(env,
              ElementsAre("HOME=/root", "LISTENER=mine", "MUSTER_ATTEMPT=2", "MUSTER_JOB_ID=j1",
                          "MUSTER_NODE=node-1", "PATH=/bin", "PWD=/work", "PYTHONUNBUFFERED=1"));
}

TEST(ComposeBootstrap, KeepsPythonUnbufferedThatTheAgentOrTheJobSets) {
  EXPECT_THAT(EnvOf(OneRank(), Context({"PYTHONUNBUFFERED="})), Contains("PYTHONUNBUFFERED="));
  v1::LaunchSpec launch = OneRank();
  AssignText(launch, "PYTHONUNBUFFERED", "0");
  EXPECT_THAT(EnvOf(launch, Context()), Contains("PYTHONUNBUFFERED=0"));
}

TEST(ComposeBootstrap, AppliesAssignmentsInOrderWithTheValuesSoFar) {
  v1::LaunchSpec launch = OneRank();
  v1::EnvAssignment& path = Assign(launch, "PATH");
  path.add_parts()->set_literal("/opt/bin:");
  path.add_parts()->set_variable("PATH");
  v1::EnvAssignment& again = Assign(launch, "PATH");
  again.add_parts()->set_variable("PATH");
  again.add_parts()->set_literal(":/late");
  v1::EnvAssignment& missing = Assign(launch, "MISSING");
  missing.add_parts()->set_variable("NOT_DEFINED");
  v1::EnvAssignment& home = Assign(launch, "CACHE");
  home.add_parts()->set_home(true);
  home.add_parts()->set_literal("/cache");
  const std::vector<std::string> env = EnvOf(launch, Context({"PATH=/bin"}));
  EXPECT_THAT(env, Contains("PATH=/opt/bin:/bin:/late"));
  EXPECT_THAT(env, Contains("MISSING="));
  EXPECT_THAT(env, Contains("CACHE=/home/alice/cache"));
}

TEST(ComposeBootstrap, RefusesWhatGrowsWithoutBounds) {
  v1::LaunchSpec launch = OneRank();
  AssignText(launch, "A", "xxxxxxxxxxxxxxxx");
  for (int i = 0; i < 100; ++i) {
    v1::EnvAssignment& twice = Assign(launch, "A");
    twice.add_parts()->set_variable("A");
    twice.add_parts()->set_variable("A");
    twice.set_source("job.env:7");
  }
  const auto refused = ComposeBootstrap(launch, Context());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("A (job.env:7)"), HasSubstr("too long once it is expanded")));
}

TEST(ComposeBootstrap, RefusesManyLongValues) {
  v1::LaunchSpec launch = OneRank();
  AssignText(launch, "LONG", std::string(100'000, 'x'));
  for (int i = 0; i < 100; ++i) {
    Assign(launch, "COPY" + std::to_string(i)).add_parts()->set_variable("LONG");
  }
  const auto refused = ComposeBootstrap(launch, Context());
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("environment is too long"), HasSubstr("COPY8")));
}

TEST(ComposeBootstrap, TakesAVariableThatIsSetManyTimes) {
  v1::LaunchSpec launch = OneRank();
  AssignText(launch, "LONG", std::string(100'000, 'x'));
  for (int i = 0; i < 1000; ++i) Assign(launch, "COPY").add_parts()->set_variable("LONG");
  EXPECT_TRUE(ComposeBootstrap(launch, Context()).ok());
}

TEST(ComposeBootstrap, DoesNotExpandLiterals) {
  v1::LaunchSpec launch = OneRank();
  const std::string odd = "$HOME ${X} `id` \xff\x01 = '\"\n";
  AssignText(launch, "ODD", odd);
  EXPECT_THAT(EnvOf(launch, Context({"HOME=/root"})), Contains("ODD=" + odd));
}

TEST(ComposeBootstrap, LetsTheLaunchersVariablesWin) {
  v1::LaunchSpec launch = OneRank();
  AssignText(launch, "RANK", "99");
  AssignText(launch, "MUSTER_JOB_ID", "other");
  v1::EnvPair& pair = *launch.mutable_ranks(0)->add_env();
  pair.set_name("RANK");
  pair.set_value("5");
  const std::vector<std::string> env = EnvOf(launch, Context({"MUSTER_NODE=outer"}));
  EXPECT_THAT(env, Contains("RANK=5"));
  EXPECT_THAT(env, Contains("MUSTER_JOB_ID=j1"));
  EXPECT_THAT(env, Contains("MUSTER_NODE=node-1"));
  EXPECT_EQ(
      std::count_if(env.begin(), env.end(),
                    [](const std::string& pair_text) { return pair_text.starts_with("RANK="); }),
      1);
}

TEST(ComposeBootstrap, LeavesTheRendezvousToTheRun) {
  const std::vector<std::string> env =
      EnvOf(OneRank(), Context({"MASTER_ADDR=stale", "MASTER_PORT=1"}));
  EXPECT_THAT(env, Not(Contains(HasSubstr("MASTER_"))));
  v1::Rendezvous rendezvous;
  rendezvous.set_address("10.0.0.1");
  rendezvous.set_port(29500);
  EXPECT_THAT(ComposeRun(rendezvous).env(),
              ElementsAre("MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500"));
}

TEST(ComposeBootstrap, InsertsTheLocalRankArgument) {
  v1::LaunchSpec launch = OneRank();
  launch.add_argv("-u");
  launch.add_argv("script.py");
  launch.add_argv("--flag");
  launch.set_local_rank_argument_index(3);
  EXPECT_THAT(ComposeBootstrap(launch, Context())->ranks(0).argv(),
              ElementsAre("prog", "-u", "script.py", "--local_rank=1", "--flag"));
  launch.set_local_rank_argument_index(99);
  EXPECT_THAT(ComposeBootstrap(launch, Context())->ranks(0).argv(),
              ElementsAre("prog", "-u", "script.py", "--flag", "--local_rank=1"));
}

TEST(ComposeBootstrap, CarriesEverythingElse) {
  v1::LaunchSpec launch = OneRank();
  launch.set_script("train.py");
  launch.mutable_stop_grace()->set_seconds(7);
  launch.mutable_rendezvous()->set_port(29501);
  launch.set_log_quota_bytes(1000);
  launch.set_holder("alice, job j1");
  ComposeContext context = Context();
  context.lease = std::chrono::seconds(6);
  context.fake_unkillable_rank = 0;
  const internal::ShimBootstrap bootstrap = ComposeBootstrap(launch, context).value();
  EXPECT_EQ(bootstrap.format(), 1u);
  EXPECT_EQ(bootstrap.job_id(), "j1");
  EXPECT_EQ(bootstrap.attempt(), 2u);
  EXPECT_EQ(bootstrap.node_id(), "node-1");
  EXPECT_THAT(bootstrap.slots(), ElementsAre(3u));
  EXPECT_TRUE(bootstrap.reserve_port());
  EXPECT_EQ(bootstrap.port(), 29501u);
  EXPECT_EQ(bootstrap.working_directory(), "/work");
  EXPECT_EQ(bootstrap.script(), "train.py");
  EXPECT_EQ(bootstrap.lease_ms(), 6000u);
  EXPECT_EQ(bootstrap.grace_ms(), 7000u);
  EXPECT_EQ(bootstrap.log_quota_bytes(), 1000u);
  EXPECT_EQ(bootstrap.holder(), "alice, job j1");
  EXPECT_TRUE(bootstrap.has_fake_unkillable_rank());
  EXPECT_EQ(bootstrap.ranks(0).rank(), 5u);
  EXPECT_EQ(bootstrap.ranks(0).slot(), 3u);
}

TEST(ComposeBootstrap, LogsHaveAQuotaOfOneGiBUnlessTheJobSaysMore) {
  EXPECT_EQ(ComposeBootstrap(OneRank(), Context())->log_quota_bytes(), uint64_t{1} << 30);
}

TEST(ComposeBootstrap, ReservesNoPortWithoutARendezvousAndNeverExpiresWithoutALease) {
  const internal::ShimBootstrap bootstrap = ComposeBootstrap(OneRank(), Context()).value();
  EXPECT_FALSE(bootstrap.reserve_port());
  EXPECT_EQ(bootstrap.lease_ms(), 0u);
  EXPECT_EQ(bootstrap.grace_ms(), 30'000u);
  EXPECT_FALSE(bootstrap.has_fake_unkillable_rank());
}

TEST(ApplyPlacements, PutsRanksInTheirPlaceAndTellsThemTheirThreads) {
  v1::LaunchSpec launch = OneRank();
  v1::RankSpec& second = *launch.add_ranks();
  second.set_rank(6);
  internal::ShimBootstrap bootstrap =
      ComposeBootstrap(launch, Context({"OMP=1", "OMP_NUM_THREADS1=2", "ZZ=1"})).value();
  const internal::ShimBootstrap before = bootstrap;
  std::vector<v1::RankPlacement> placements(2);
  placements[0].set_rank(5);
  placements[0].set_cpus("0-2,8");
  placements[0].set_memory_node(1);
  placements[0].set_omp_num_threads(3);
  placements[1].set_rank(6);
  placements[1].set_memory_node(-1);
  ApplyPlacements(placements, &bootstrap);
  const internal::ShimRank& bound = bootstrap.ranks(0);
  EXPECT_THAT(bound.cpus(), ElementsAre(0, 1, 2, 8));
  EXPECT_TRUE(bound.has_memory_node());
  EXPECT_EQ(bound.memory_node(), 1u);
  std::vector<std::string> names;
  for (const std::string& pair : bound.env()) names.push_back(pair.substr(0, pair.find('=')));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(bound.env_size(), before.ranks(0).env_size() + 1);
  EXPECT_THAT(bound.env(), Contains("OMP_NUM_THREADS=3"));
  EXPECT_EQ(bootstrap.ranks(1).SerializeAsString(), before.ranks(1).SerializeAsString());
}

TEST(ApplyPlacements, LeavesThreadsThatAreSetAndRanksOfOthers) {
  internal::ShimBootstrap bootstrap =
      ComposeBootstrap(OneRank(), Context({"OMP_NUM_THREADS=9"})).value();
  std::vector<v1::RankPlacement> placements(2);
  placements[0].set_rank(5);
  placements[0].set_cpus("0");
  placements[0].set_memory_node(-1);
  placements[0].set_omp_num_threads(3);
  placements[1].set_rank(77);
  placements[1].set_cpus("1");
  ApplyPlacements(placements, &bootstrap);
  EXPECT_THAT(bootstrap.ranks(0).cpus(), ElementsAre(0));
  EXPECT_FALSE(bootstrap.ranks(0).has_memory_node());
  EXPECT_THAT(bootstrap.ranks(0).env(), Contains("OMP_NUM_THREADS=9"));
  EXPECT_THAT(bootstrap.ranks(0).env(), Not(Contains("OMP_NUM_THREADS=3")));
}

const v1::DeviceInventory& OneCard() {
  static const v1::DeviceInventory* const kInventory = [] {
    auto* const inventory = new v1::DeviceInventory;
    inventory->add_devices();
    return inventory;
  }();
  return *kInventory;
}

ComposeContext WithProfile(std::vector<std::string> environ = {}) {
  ComposeContext context = Context(std::move(environ));
  context.devices = &OneCard();
  v1::EnvAssignment& kernels = context.profile.emplace_back();
  kernels.set_name("GC_KERNEL_PATH");
  kernels.set_source("habanalabs.sh:2");
  kernels.add_parts()->set_literal("/kernels.so:");
  kernels.add_parts()->set_variable("MORE");
  v1::EnvAssignment& logs = context.profile.emplace_back();
  logs.set_name("HABANA_LOGS");
  logs.add_parts()->set_home(true);
  logs.add_parts()->set_literal("/.habana_logs");
  return context;
}

TEST(ComposeBootstrap, FillsFromTheProfileWhatNeitherAgentNorJobSets) {
  v1::LaunchSpec launch = OneRank();
  EXPECT_THAT(EnvOf(launch, WithProfile({"MORE=/more.so"})),
              AllOf(Contains("GC_KERNEL_PATH=/kernels.so:/more.so"),
                    Contains("HABANA_LOGS=/home/alice/.habana_logs")));
  const internal::ShimBootstrap filled = ComposeBootstrap(launch, WithProfile()).value();
  ASSERT_EQ(filled.filled_size(), 2);
  EXPECT_EQ(filled.filled(0).name(), "GC_KERNEL_PATH");
  EXPECT_EQ(filled.filled(0).source(), "habanalabs.sh:2");
}

TEST(ComposeBootstrap, TheAgentsEnvironmentAndTheJobGoBeforeTheProfile) {
  v1::LaunchSpec launch = OneRank();
  v1::EnvAssignment& logs = Assign(launch, "HABANA_LOGS");
  logs.add_parts()->set_variable("HABANA_LOGS");
  logs.add_parts()->set_literal("/of-the-job");
  const ComposeContext context = WithProfile({"GC_KERNEL_PATH=/own.so"});
  EXPECT_THAT(EnvOf(launch, context),
              AllOf(Contains("GC_KERNEL_PATH=/own.so"),
                    Contains("HABANA_LOGS=/home/alice/.habana_logs/of-the-job")));
  EXPECT_EQ(ComposeBootstrap(launch, context).value().filled_size(), 0);
}

TEST(ComposeBootstrap, TheProfileIsForNodesWithCardsAndNotForImages) {
  v1::LaunchSpec launch = OneRank();
  ComposeContext context = WithProfile();
  context.devices = nullptr;
  EXPECT_THAT(EnvOf(launch, context), Not(Contains(HasSubstr("GC_KERNEL_PATH"))));
  context = WithProfile();
  context.container_host.docker.program = "/usr/bin/docker";
  launch.mutable_container()->set_image("train");
  EXPECT_THAT(EnvOf(launch, context), Not(Contains(HasSubstr("GC_KERNEL_PATH"))));
}

}  // namespace
}  // namespace muster
