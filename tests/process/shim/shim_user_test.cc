// Ranks of a shim that is root run as another user, and as nobody else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/process/shim/shim_client.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Nobody has these numbers.
constexpr uint32_t kUid = 54321;
constexpr uint32_t kGid = 54322;
constexpr uint32_t kOtherGid = 54323;

class ShimUser : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "it takes root to become somebody else";
    internal::ShimRunAs& user = *shim_.bootstrap.mutable_run_as();
    user.set_name("probe");
    user.set_uid(kUid);
    user.set_gid(kGid);
    user.add_groups(kGid);
    user.add_groups(kOtherGid);
    shim_.bootstrap.set_working_directory("/");
  }

  internal::ShimRank& AddShell(const std::string& script) {
    return shim_.AddRank({"/bin/sh", "-c", script});
  }
  int CodeOf(uint32_t rank) {
    const auto* exited = shim_.WaitExited(rank, 0);
    EXPECT_NE(exited, nullptr);
    if (exited == nullptr) return -1;
    EXPECT_EQ(exited->kind(), internal::ShimRankExited::CODE) << exited->message();
    return exited->value();
  }

  AttemptFolder folder_;
  ShimClient shim_{folder_.path(), "a", folder_.path() + "/leases"};
};

TEST_F(ShimUser, RanksHaveTheNumbersOfTheUserAndNoRights) {
  AddShell("cat /proc/self/status");
  ASSERT_TRUE(shim_.RunToEnd());
  EXPECT_EQ(CodeOf(0), 0);
  const std::string status = shim_.Log(0).stdout_bytes;
  EXPECT_THAT(
      status,
      AllOf(HasSubstr("Uid:\t54321\t54321\t54321\t54321\n"),
            HasSubstr("Gid:\t54322\t54322\t54322\t54322\n"), HasSubstr("Groups:\t54322 54323 \n"),
            HasSubstr("CapPrm:\t0000000000000000\n"), HasSubstr("CapEff:\t0000000000000000\n"),
            HasSubstr("CapAmb:\t0000000000000000\n")));
}

// An agent may have been started with some, by a service manager or in a container.
TEST_F(ShimUser, RanksInheritNoCapabilities) {
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct before[2] = {};
  ASSERT_EQ(::syscall(SYS_capget, &header, before), 0);
  __user_cap_data_struct more[2] = {before[0], before[1]};
  more[0].inheritable |= 1u << CAP_CHOWN;
  ASSERT_EQ(::syscall(SYS_capset, &header, more), 0);
  AddShell("grep CapInh /proc/self/status");
  const bool ended = shim_.RunToEnd();
  ASSERT_EQ(::syscall(SYS_capset, &header, before), 0);
  ASSERT_TRUE(ended);
  EXPECT_EQ(shim_.Log(0).stdout_bytes, "CapInh:\t0000000000000000\n");
}

TEST_F(ShimUser, RanksCannotReachWhatIsRoots) {
  // The folder of the attempt holds locks, records and everybody's output; it alone must protect
  // them.
  ::chmod(folder_.path().c_str(), 0755);
  AddShell("cat '" + shim_.directory() + "/events.rec'");
  AddShell("echo x >> '" + shim_.directory() + "/rank-00000.log'");
  AddShell("kill -0 $PPID");
  ASSERT_TRUE(shim_.RunToEnd());
  for (uint32_t rank : {0u, 1u, 2u}) EXPECT_NE(CodeOf(rank), 0) << rank;
}

TEST_F(ShimUser, RanksMayOpenTheirOutputByName) {
  AddShell("echo out > /dev/stdout; echo err > /dev/stderr");
  ASSERT_TRUE(shim_.RunToEnd());
  EXPECT_EQ(CodeOf(0), 0);
  EXPECT_EQ(shim_.Log(0).stdout_bytes, "out\n");
  EXPECT_EQ(shim_.Log(0).stderr_bytes, "err\n");
}

TEST_F(ShimUser, ChecksAreMadeAsTheUser) {
  const std::string closed = folder_.path() + "/closed";
  std::filesystem::create_directory(closed);
  ::chmod(folder_.path().c_str(), 0755);
  ::chmod(closed.c_str(), 0700);
  shim_.bootstrap.set_working_directory(closed);
  AddShell("true");
  EXPECT_FALSE(shim_.StartAndPrepare());
  EXPECT_THAT(shim_.Problems(), AllOf(HasSubstr("working-directory"), HasSubstr("EACCES")));
}

TEST_F(ShimUser, ADirectoryClosedAfterTheChecksNamesTheStep) {
  const std::string closed = folder_.path() + "/closed";
  std::filesystem::create_directory(closed);
  ::chmod(folder_.path().c_str(), 0755);
  shim_.bootstrap.set_working_directory(closed);
  AddShell("true");
  ASSERT_TRUE(shim_.StartAndPrepare());
  ::chmod(closed.c_str(), 0700);
  shim_.Run();
  const auto* exited = shim_.WaitExited(0);
  ASSERT_NE(exited, nullptr);
  EXPECT_EQ(exited->kind(), internal::ShimRankExited::EXEC_FAILED);
  EXPECT_EQ(exited->value(), EACCES);
  EXPECT_EQ(exited->step(), "chdir");
  EXPECT_NE(shim_.WaitStopped(), nullptr);
}

TEST_F(ShimUser, RanksDieWithTheShim) {
  AddShell("echo ready; exec sleep 1000");
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  const auto* started = shim_.WaitStarted(0);
  ASSERT_NE(started, nullptr);
  const pid_t rank = started->pid();
  ASSERT_TRUE(Eventually([&] { return shim_.Log(0).stdout_bytes == "ready\n"; }));
  ::kill(shim_.pid(), SIGKILL);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(rank); }));
}

TEST_F(ShimUser, StoppingReachesEverythingThatTheUserStarted) {
  const std::string pids = folder_.path() + "/pids";
  std::ofstream(pids).close();
  ::chmod(folder_.path().c_str(), 0755);
  ::chmod(pids.c_str(), 0666);
  AddShell("trap '' TERM; setsid sh -c 'echo $$ >> " + pids + "; exec sleep 1000' & echo $$ >> " +
           pids + "; wait; wait");
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  ASSERT_TRUE(Eventually([&] { return ReadPids(pids).size() == 2; }));
  shim_.Stop(100);
  ASSERT_NE(shim_.WaitStopped(), nullptr);
  for (const pid_t pid : ReadPids(pids)) EXPECT_FALSE(IsAlive(pid)) << pid;
}

TEST_F(ShimUser, AShimThatMayNotChangeTheUserSaysSoBeforeAnythingStarts) {
  // More groups than the kernel takes stand for a sandbox that refuses.
  for (uint32_t group = 0; group < 70'000; ++group) {
    shim_.bootstrap.mutable_run_as()->add_groups(100'000 + group);
  }
  AddShell("true");
  EXPECT_FALSE(shim_.StartAndPrepare());
  EXPECT_THAT(shim_.Problems(), HasSubstr("user: the agent cannot run ranks as user 'probe': "
                                          "setgroups: "));
}

}  // namespace
}  // namespace muster::testing
