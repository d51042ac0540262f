#include "agent/supervise/sweep.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/process/agent/launcher_fixture.h"

namespace muster {
namespace {

using ::testing::IsEmpty;

// A child with an environment of its own, ended with the test.
class Child {
 public:
  explicit Child(std::vector<std::string> variables) {
    std::vector<char*> env;
    for (std::string& one : variables) env.push_back(one.data());
    env.push_back(nullptr);
    char name[] = "sleep";
    char time[] = "600";
    char* argv[] = {name, time, nullptr};
    EXPECT_EQ(::posix_spawn(&pid_, "/bin/sleep", nullptr, nullptr, argv, env.data()), 0);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  bool lives() const { return ProcessLives(pid_); }
  int pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

std::vector<std::string> Marks(const SweepTarget& target) {
  return {"A=b", "MUSTER_JOB_ID=" + target.attempt.job.value(),
          fmt::format("MUSTER_ATTEMPT={}", target.attempt.attempt),
          "MUSTER_NODE=" + target.node.value()};
}

SweepTarget Target() {
  SweepTarget target;
  target.attempt = {JobId(fmt::format("sweep-{}", ::getpid())), 1};
  target.node = NodeId("n");
  return target;
}

TEST(Sweep, KillsWhatCarriesTheMarksAndNothingElse) {
  const SweepTarget target = Target();
  SweepTarget other = target;
  other.node = NodeId("n2");
  const Child ours(Marks(target));
  const Child neighbour(Marks(other));
  const Child stranger({"A=b"});
  const SweepResult result = Sweep(target, std::chrono::seconds(10));
  EXPECT_EQ(result.killed, 1u);
  EXPECT_THAT(result.unkillable, IsEmpty());
  EXPECT_FALSE(ours.lives());
  EXPECT_TRUE(neighbour.lives());
  EXPECT_TRUE(stranger.lives());
}

TEST(Sweep, KnowsARankByItsStartTime) {
  SweepTarget target = Target();
  const Child rank({"A=b"});
  const Child later({"A=b"});
  ProcessStat stat;
  std::string text;
  {
    FILE* file = std::fopen(fmt::format("/proc/{}/stat", rank.pid()).c_str(), "r");
    ASSERT_NE(file, nullptr);
    char buffer[1024] = {};
    ASSERT_GT(std::fread(buffer, 1, sizeof(buffer) - 1, file), 0u);
    std::fclose(file);
    text = buffer;
  }
  ASSERT_TRUE(ParseProcessStat(text, &stat));
  target.ranks = {{rank.pid(), stat.start_ticks}, {later.pid(), stat.start_ticks + 1'000'000}};
  const SweepResult result = Sweep(target, std::chrono::seconds(10));
  EXPECT_EQ(result.killed, 1u);
  EXPECT_FALSE(rank.lives());
  EXPECT_TRUE(later.lives());
}

TEST(Sweep, FindsNothingWhereNothingIs) {
  const SweepResult result = Sweep(Target(), std::chrono::seconds(10));
  EXPECT_EQ(result.killed, 0u);
  EXPECT_THAT(result.unkillable, IsEmpty());
}

}  // namespace
}  // namespace muster
