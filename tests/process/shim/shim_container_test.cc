// The engine of ranks in containers, as a shim calls it. Its life with real containers is in
// tests/integration/cli/run_container_test.cc and in tests/containers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/process/shim/shim_client.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Nobody has this number.
constexpr uint32_t kUid = 54321;

class ShimContainer : public ::testing::Test {
 protected:
  ShimContainer() {
    shim_.bootstrap.set_working_directory("/");
    calls_ = folder_.path() + "/calls";
    std::ofstream(calls_).close();
    ::chmod(calls_.c_str(), 0666);
    ::chmod(folder_.path().c_str(), 0755);
  }

  // The engine is a shell script; `body` sees its command in $1 and more.
  void UseEngine(const std::string& body) {
    const std::string program = folder_.path() + "/engine";
    std::ofstream(program) << "#!/bin/sh\necho \"$(id -u) $*\" >> " << calls_ << "\n"
                           << body << "\n";
    ::chmod(program.c_str(), 0755);
    internal::ShimEngine& engine = *shim_.bootstrap.mutable_engine();
    engine.set_program(program);
    engine.set_name("podman");
    engine.add_options("--global");
    engine.add_labels("muster.job=j");
    engine.add_labels("muster.attempt=1");
    engine.add_env("PATH=/usr/bin:/bin");
    engine.set_image("img");
    internal::ShimRank& rank = shim_.AddRank({program, "run", "img"});
    rank.set_container("muster-j-1-0");
    rank.set_env_file("A=of the file\n");
  }
  std::string Calls() const {
    std::ifstream file(calls_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  AttemptFolder folder_;
  ShimClient shim_{folder_.path(), "a", folder_.path() + "/leases"};
  std::string calls_;
};

TEST_F(ShimContainer, IsAskedForTheImageTheEndAndWhatIsLeft) {
  UseEngine("[ \"$1\" != run ] || { cat /dev/stdin; exit 125; }");
  ASSERT_TRUE(shim_.RunToEnd());
  EXPECT_EQ(Calls().find(" --global image inspect --format {{.Id}} img\n"), Calls().find(' '));
  EXPECT_THAT(Calls(), HasSubstr(" --global ps -a --no-trunc --format {{.ID}} {{.Names}} --filter "
                                 "label=muster.job=j --filter label=muster.attempt=1\n"));
  EXPECT_THAT(Calls(), Not(HasSubstr(" rm ")));
  const auto* exited = shim_.WaitExited(0, 0);
  ASSERT_NE(exited, nullptr);
  EXPECT_EQ(exited->kind(), internal::ShimRankExited::EXEC_FAILED);
  EXPECT_EQ(exited->step(), "engine");
  EXPECT_EQ(shim_.Log(0).stdout_bytes, "A=of the file\n");
}

TEST_F(ShimContainer, IsCalledAsTheUserOfTheJobOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "it takes root to become somebody else";
  internal::ShimRunAs& user = *shim_.bootstrap.mutable_run_as();
  user.set_name("probe");
  user.set_uid(kUid);
  user.set_gid(kUid);
  user.add_groups(kUid);
  // One container is there until it is removed.
  UseEngine("case $2 in\nps) grep -q ' rm ' " + calls_ +
            " || echo 'aa muster-j-1-0';;\ncontainer) echo 'false|7|false|2026';;\nesac\n"
            "[ \"$1\" != run ] || { cat /dev/stdin; exit 1; }");
  ASSERT_TRUE(shim_.RunToEnd());
  EXPECT_THAT(Calls(), AllOf(HasSubstr("54321 --global image inspect"), HasSubstr("54321 run img"),
                             HasSubstr("54321 --global container inspect"),
                             HasSubstr("54321 --global kill --signal=KILL aa\n"),
                             HasSubstr("54321 --global rm -f aa\n"), Not(HasSubstr("\n0 "))));
  EXPECT_EQ(Calls().substr(0, 6), "54321 ");
  EXPECT_EQ(shim_.Log(0).stdout_bytes, "A=of the file\n");
  const auto* exited = shim_.WaitExited(0, 0);
  ASSERT_NE(exited, nullptr);
  EXPECT_EQ(exited->kind(), internal::ShimRankExited::CODE);
  EXPECT_EQ(exited->value(), 7);
}

// An engine whose container is there for as long as the engine is.
constexpr char kKeeps[] =
    "case $2 in\nps) echo 'aa muster-j-1-0';;\ncontainer) echo 'true|0|false|2026';;\n"
    "kill|rm) exit 1;;\nesac\n[ \"$1\" != run ] || exec sleep 1000";

TEST_F(ShimContainer, OfAnEngineThatIsGoneForGoodKeepsNoShimButItsSlots) {
  UseEngine(kKeeps);
  shim_.bootstrap.mutable_engine()->set_missing_limit_ms(1500);
  ASSERT_TRUE(shim_.StartAndPrepare()) << shim_.Problems();
  shim_.Run();
  ASSERT_TRUE(Eventually([&] { return Calls().find("run img") != std::string::npos; }));
  ASSERT_EQ(::unlink((folder_.path() + "/engine").c_str()), 0);
  shim_.Stop(0);
  const auto* stopped = shim_.WaitStopped(30);
  ASSERT_NE(stopped, nullptr);
  // Never told to be gone.
  ASSERT_EQ(stopped->unkillable_size(), 1);
  EXPECT_THAT(stopped->unkillable(0), HasSubstr("podman does not say which containers are left"));
  EXPECT_EQ(shim_.WaitExit(30), 0);

  // Nobody gets the slot, and everybody is told why.
  ShimClient other(folder_.path(), "b", folder_.path() + "/leases");
  other.bootstrap.set_working_directory("/");
  other.AddRank({"/bin/true"});
  EXPECT_FALSE(other.StartAndPrepare());
  EXPECT_THAT(other.Problems(), AllOf(HasSubstr("is withheld: "), HasSubstr("podman does not say"),
                                      HasSubstr("remove " + folder_.path() + "/leases/")));
}

TEST_F(ShimContainer, OfAnEngineThatIsGoneKeepsNoShimWhoseLeasesAreGoneToo) {
  const std::string above = folder_.path() + "/above";
  ASSERT_EQ(::mkdir(above.c_str(), 0755), 0);
  UseEngine(kKeeps);
  shim_.bootstrap.set_lease_directory(above + "/leases");
  shim_.bootstrap.mutable_engine()->set_missing_limit_ms(1500);
  ASSERT_TRUE(shim_.StartAndPrepare()) << shim_.Problems();
  shim_.Run();
  ASSERT_TRUE(Eventually([&] { return Calls().find("run img") != std::string::npos; }));
  ASSERT_EQ(::unlink((folder_.path() + "/engine").c_str()), 0);
  std::filesystem::remove_all(above);
  shim_.Stop(0);
  const auto* stopped = shim_.WaitStopped(30);
  ASSERT_NE(stopped, nullptr);
  EXPECT_EQ(stopped->unkillable_size(), 1);
  EXPECT_EQ(shim_.WaitExit(30), 0);
}

TEST_F(ShimContainer, OfAShimThatIsKilledKeepsItsSlotAtOnce) {
  UseEngine(kKeeps);
  ASSERT_TRUE(shim_.StartAndPrepare()) << shim_.Problems();
  shim_.Run();
  ASSERT_TRUE(Eventually([&] { return Calls().find("run img") != std::string::npos; }));
  ASSERT_EQ(::kill(shim_.pid(), SIGKILL), 0);
  (void)shim_.WaitExit(30);
  ShimClient other(folder_.path(), "b", folder_.path() + "/leases");
  other.bootstrap.set_working_directory("/");
  other.AddRank({"/bin/true"});
  EXPECT_FALSE(other.StartAndPrepare());
  EXPECT_THAT(other.Problems(), AllOf(HasSubstr("is withheld: "), HasSubstr("may still run")));
}

TEST_F(ShimContainer, WhichIsGoneAtTheEndLeavesItsSlotToOthers) {
  UseEngine("[ \"$1\" != run ] || exit 3");
  ASSERT_TRUE(shim_.RunToEnd());
  ShimClient other(folder_.path(), "b", folder_.path() + "/leases");
  other.bootstrap.set_working_directory("/");
  other.AddRank({"/bin/true"});
  EXPECT_TRUE(other.StartAndPrepare()) << other.Problems();
}

TEST_F(ShimContainer, ThatIsLeftByADeadShimHasItsSlotUntilItIsRemoved) {
  UseEngine(kKeeps);
  internal::ShimBootstrap kept = shim_.bootstrap;
  const std::string input = folder_.path() + "/kept";
  std::ofstream(input) << kept.SerializeAsString();
  const std::string remove =
      ProgramPath("muster-shim") + " --remove-containers 1000 < " + input + " > /dev/null 2>&1";
  EXPECT_NE(std::system(remove.c_str()), 0);
  ShimClient other(folder_.path(), "b", folder_.path() + "/leases");
  other.bootstrap.set_working_directory("/");
  other.AddRank({"/bin/true"});
  EXPECT_FALSE(other.StartAndPrepare());
  EXPECT_THAT(other.Problems(), AllOf(HasSubstr("is withheld: "), HasSubstr("muster-j-1-0")));

  // Gone at last.
  std::ofstream(folder_.path() + "/engine") << "#!/bin/sh\n";
  EXPECT_EQ(std::system(remove.c_str()), 0);
  ShimClient third(folder_.path(), "c", folder_.path() + "/leases");
  third.bootstrap.set_working_directory("/");
  third.AddRank({"/bin/true"});
  EXPECT_TRUE(third.StartAndPrepare()) << third.Problems();
}

TEST_F(ShimContainer, WhoseRemovalIsKilledKeepsItsSlot) {
  UseEngine("exec sleep 1000");
  internal::ShimBootstrap kept = shim_.bootstrap;
  const std::string input = folder_.path() + "/kept";
  std::ofstream(input) << kept.SerializeAsString();
  const std::string words = ProgramPath("muster-shim") + " --remove-containers ";
  const std::string killed = words + "60000 < " + input +
                             " > /dev/null 2>&1 & pid=$!; while [ ! -s " + calls_ +
                             " ]; do sleep 0.01; done; kill -9 $pid; wait $pid";
  EXPECT_NE(std::system(killed.c_str()), 0);
  ShimClient other(folder_.path(), "b", folder_.path() + "/leases");
  other.bootstrap.set_working_directory("/");
  other.AddRank({"/bin/true"});
  EXPECT_FALSE(other.StartAndPrepare());
  EXPECT_THAT(other.Problems(), AllOf(HasSubstr("is withheld: "), HasSubstr("were to be removed")));

  std::ofstream(folder_.path() + "/engine") << "#!/bin/sh\n";
  EXPECT_EQ(std::system((words + "1000 < " + input + " > /dev/null 2>&1").c_str()), 0);
  ShimClient third(folder_.path(), "c", folder_.path() + "/leases");
  third.bootstrap.set_working_directory("/");
  third.AddRank({"/bin/true"});
  EXPECT_TRUE(third.StartAndPrepare()) << third.Problems();
}

TEST_F(ShimContainer, ThatHangsDoesNotKeepTheShimFromStopping) {
  // As a wrapper of an engine would.
  UseEngine("case $2 in image) sleep 60 & echo $! > " + folder_.path() + "/pid; wait;; esac");
  shim_.Start();
  ASSERT_TRUE(shim_.Connect());
  const std::string path = folder_.path() + "/pid";
  ASSERT_TRUE(Eventually([&] { return !ReadPids(path).empty(); }));
  const std::vector<pid_t> pids = ReadPids(path);
  shim_.Stop(0);
  EXPECT_NE(shim_.WaitStopped(5), nullptr);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(pids[0]); }));
}

}  // namespace
}  // namespace muster::testing
