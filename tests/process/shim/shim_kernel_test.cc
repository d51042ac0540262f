// What a real muster-shim gets from the kernel where it may: cgroups, and word of the out-of-memory
// killer. Skipped with the reason where it may not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/process/shim/shim_client.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

// A cgroup directory of the test's own; empty when there is no writable hierarchy at `roots`.
class TestCgroup {
 public:
  TestCgroup(std::initializer_list<const char*> roots, const char* file) {
    for (const std::string root : roots) {
      if (::access((root + "/" + file).c_str(), F_OK) != 0) continue;
      const std::string path = root + "/muster-test-" + std::to_string(::getpid());
      if (::mkdir(path.c_str(), 0755) != 0) continue;
      path_ = path;
      return;
    }
  }
  ~TestCgroup() {
    if (!path_.empty()) (void)Eventually([&] { return ::rmdir(path_.c_str()) == 0; }, 2);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class ShimKernel : public ::testing::Test {
 protected:
  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }
  AttemptFolder folder_;
  ShimClient shim_{folder_.path(), "a", folder_.path() + "/leases"};
};

TEST_F(ShimKernel, EveryRankHasACgroupAndIsKilledInIt) {
  const TestCgroup cgroup({"/sys/fs/cgroup/unified", "/sys/fs/cgroup"}, "cgroup.procs");
  if (cgroup.path().empty() || ::access((cgroup.path() + "/cgroup.kill").c_str(), W_OK) != 0) {
    GTEST_SKIP() << "no writable cgroup v2 with cgroup.kill";
  }
  shim_.bootstrap.set_cgroup_directory(cgroup.path());
  for (const char* number : {"0", "1"}) {
    shim_.AddProbe({"--ignore-term", "--bare-daemons", "3", File(std::string("pids.") + number),
                    "--touch", File(std::string("up.") + number), "--sleep-ms", "60000"});
  }
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  ASSERT_TRUE(Eventually([&] {
    return std::filesystem::exists(File("up.0")) && std::filesystem::exists(File("up.1"));
  }));
  for (const char* number : {"0", "1"}) {
    EXPECT_EQ(ReadPids(cgroup.path() + "/rank-" + number + "/cgroup.procs").size(), 4u);
  }
  // The end of one rank while stopping takes its daemons along, though nothing but the cgroup tells
  // whose they are.
  const auto* started = shim_.WaitStarted(0);
  ASSERT_NE(started, nullptr);
  const std::vector<pid_t> daemons = ReadPids(File("pids.0"));
  shim_.Stop(30'000);
  ASSERT_EQ(::kill(started->pid(), SIGKILL), 0);
  EXPECT_TRUE(Eventually([&] {
    for (const pid_t pid : daemons) {
      if (IsAlive(pid)) return false;
    }
    return true;
  }));
  EXPECT_EQ(shim_.WaitExited(1, 0), nullptr);
  shim_.Stop(0);
  const auto* stopped = shim_.WaitStopped();
  ASSERT_NE(stopped, nullptr);
  EXPECT_EQ(stopped->killed_leftovers(), 6u);
  for (const pid_t pid : ReadPids(File("pids.1"))) EXPECT_FALSE(IsAlive(pid));
  EXPECT_FALSE(std::filesystem::exists(cgroup.path() + "/rank-0"));
  shim_.Quit();
  EXPECT_EQ(shim_.WaitExit(), 0);
}

TEST_F(ShimKernel, ADirectoryThatIsNoCgroupIsDoneWithout) {
  std::filesystem::create_directory(File("no-cgroup"));
  shim_.bootstrap.set_cgroup_directory(File("no-cgroup"));
  shim_.AddProbe({"--exit", "3"});
  ASSERT_TRUE(shim_.RunToEnd());
  EXPECT_EQ(shim_.WaitExited(0, 0)->value(), 3);
}

TEST_F(ShimKernel, ARankIsAsExpendableAsTheAgentWas) {
  shim_.bootstrap.set_has_rank_oom_score_adj(true);
  shim_.bootstrap.set_rank_oom_score_adj(321);
  shim_.AddRank({"/bin/cat", "/proc/self/oom_score_adj"});
  ASSERT_TRUE(shim_.RunToEnd());
  EXPECT_EQ(shim_.Log(0).stdout_bytes, "321\n");
}

TEST_F(ShimKernel, TellsThatTheKernelKilledARankForMemory) {
  const TestCgroup cgroup({"/sys/fs/cgroup/memory"}, "memory.limit_in_bytes");
  if (cgroup.path().empty() || ::access("/dev/kmsg", R_OK) != 0) {
    GTEST_SKIP() << "no memory cgroup v1, or the kernel log may not be read";
  }
  // The kernel log has the process ids of the first pid namespace, which has this fixed name.
  std::error_code error;
  if (std::filesystem::read_symlink("/proc/self/ns/pid", error) != "pid:[4026531836]") {
    GTEST_SKIP() << "in a pid namespace of a container";
  }
  std::ofstream(cgroup.path() + "/memory.limit_in_bytes") << (48 << 20);
  shim_.AddProbe({"--eat-memory", "256", "--exit", "0"});
  shim_.AddProbe({"--sleep-ms", "100", "--signal", "9"});
  ASSERT_TRUE(shim_.StartAndPrepare());
  std::ofstream(cgroup.path() + "/cgroup.procs") << shim_.pid();
  shim_.Run();
  const auto* eater = shim_.WaitExited(0);
  ASSERT_NE(eater, nullptr);
  EXPECT_EQ(eater->kind(), internal::ShimRankExited::SIGNAL);
  EXPECT_EQ(eater->value(), SIGKILL);
  EXPECT_TRUE(eater->oom_killed());
  const auto* other = shim_.WaitExited(1);
  ASSERT_NE(other, nullptr);
  EXPECT_FALSE(other->oom_killed()) << "somebody else's SIGKILL";
  ASSERT_NE(shim_.WaitStopped(), nullptr);
  shim_.Quit();
  EXPECT_EQ(shim_.WaitExit(), 0);
}

}  // namespace
}  // namespace muster::testing
