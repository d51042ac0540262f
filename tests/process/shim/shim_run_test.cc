// A real muster-shim starts real ranks: how they end, and what they are given.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/process/shim/shim_client.h"

namespace muster::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class ShimRun : public ::testing::Test {
 protected:
  AttemptFolder folder_;
  ShimClient shim_{folder_.path(), "a", folder_.path() + "/leases"};
};

TEST_F(ShimRun, ReportsTheExitCodesOfAllRanks) {
  for (const int code : {0, 1, 7, 127, 255}) {
    shim_.AddProbe({"--exit", std::to_string(code)});
  }
  ASSERT_TRUE(shim_.RunToEnd());
  const std::vector<int> codes = {0, 1, 7, 127, 255};
  for (uint32_t rank = 0; rank < codes.size(); ++rank) {
    const auto* exited = shim_.WaitExited(rank, 0);
    ASSERT_NE(exited, nullptr);
    EXPECT_EQ(exited->kind(), internal::ShimRankExited::CODE);
    EXPECT_EQ(exited->value(), codes[rank]);
    EXPECT_NE(shim_.WaitStarted(rank, 0), nullptr);
    EXPECT_NE(shim_.WaitLogClosed(rank, 0), nullptr);
  }
  EXPECT_EQ(shim_.WaitStopped(0)->killed_leftovers(), 0u);
}

TEST_F(ShimRun, ReportsSignals) {
  const std::vector<int> signals = {SIGKILL, SIGSEGV, SIGTERM, SIGUSR1, SIGPIPE};
  for (const int signal : signals) shim_.AddProbe({"--signal", std::to_string(signal)});
  ASSERT_TRUE(shim_.RunToEnd());
  for (uint32_t rank = 0; rank < signals.size(); ++rank) {
    const auto* exited = shim_.WaitExited(rank, 0);
    ASSERT_NE(exited, nullptr);
    EXPECT_EQ(exited->kind(), internal::ShimRankExited::SIGNAL);
    EXPECT_EQ(exited->value(), signals[rank]);
  }
}

TEST_F(ShimRun, RecordsAreGaplessAndInOrderOfCauseAndEffect) {
  for (int i = 0; i < 3; ++i) shim_.AddProbe({"--print", "hello"});
  ASSERT_TRUE(shim_.RunToEnd());
  uint64_t index = 0;
  std::vector<bool> started(3), exited(3), closed(3);
  for (const internal::ShimRecord& record : shim_.records()) {
    EXPECT_EQ(record.index(), ++index);
    EXPECT_GT(record.time_ns(), 1'600'000'000'000'000'000);
    if (record.has_begun()) {
      EXPECT_EQ(index, 1u);
      EXPECT_EQ(record.begun().pid(), shim_.pid());
      EXPECT_EQ(record.begun().boot_id().size(), 36u);
    }
    if (record.has_rank_started()) {
      EXPECT_GT(record.rank_started().pid(), 0);
      EXPECT_GT(record.rank_started().start_ticks(), 0u);
      started[record.rank_started().rank()] = true;
    }
    if (record.has_rank_exited()) {
      EXPECT_TRUE(started[record.rank_exited().rank()]);
      exited[record.rank_exited().rank()] = true;
    }
    if (record.has_log_closed()) {
      EXPECT_TRUE(exited[record.log_closed().rank()]);
      closed[record.log_closed().rank()] = true;
    }
  }
  EXPECT_TRUE(shim_.records().back().has_stopped());
  EXPECT_THAT(closed, ::testing::Each(true));
}

TEST_F(ShimRun, AProgramThatCannotBeExecutedNamesTheStep) {
  // Passes the checks of prepare: only the kernel knows that this is no program.
  const std::string path = folder_.path() + "/nonsense";
  std::ofstream(path) << "no program\n";
  ::chmod(path.c_str(), 0755);
  shim_.AddRank({path});
  shim_.AddProbe({"--exit", "0"});
  ASSERT_TRUE(shim_.RunToEnd());
  const auto* exited = shim_.WaitExited(0, 0);
  ASSERT_NE(exited, nullptr);
  EXPECT_EQ(exited->kind(), internal::ShimRankExited::EXEC_FAILED);
  EXPECT_EQ(exited->value(), ENOEXEC);
  EXPECT_EQ(exited->step(), "execve");
  EXPECT_THAT(exited->message(), HasSubstr("#!"));
  EXPECT_EQ(shim_.WaitStarted(0, 0), nullptr);
  EXPECT_NE(shim_.WaitLogClosed(0, 0), nullptr);
  EXPECT_EQ(shim_.WaitExited(1, 0)->value(), 0);
}

TEST_F(ShimRun, AWorkingDirectoryThatVanishedNamesTheStep) {
  const std::string directory = folder_.path() + "/gone soon";
  std::filesystem::create_directory(directory);
  shim_.bootstrap.set_working_directory(directory);
  shim_.AddProbe({"--exit", "0"});
  ASSERT_TRUE(shim_.StartAndPrepare());
  std::filesystem::remove(directory);
  shim_.Run();
  const auto* exited = shim_.WaitExited(0);
  ASSERT_NE(exited, nullptr);
  EXPECT_EQ(exited->kind(), internal::ShimRankExited::EXEC_FAILED);
  EXPECT_EQ(exited->value(), ENOENT);
  EXPECT_EQ(exited->step(), "chdir");
  EXPECT_THAT(exited->message(), HasSubstr("gone soon"));
  EXPECT_NE(shim_.WaitStopped(), nullptr);
}

TEST_F(ShimRun, PrepareReportsEveryProblemAtOnceAndStartsNothing) {
  shim_.bootstrap.set_script("no_such.py");
  auto& rank = shim_.AddRank({"no-such-program"});
  rank.add_env("BIGVAR=" + std::string(200'000, 'x'));
  shim_.AddRank({"./neither"});
  EXPECT_FALSE(shim_.StartAndPrepare());
  const std::string problems = shim_.Problems();
  EXPECT_THAT(problems, HasSubstr("script: the script 'no_such.py'"));
  EXPECT_THAT(problems, HasSubstr("program-not-found: the program 'no-such-program'"));
  EXPECT_THAT(problems, HasSubstr("program-not-found: the program './neither'"));
  EXPECT_THAT(problems, ContainsRegex("BIGVAR is too long: 200007 bytes"));
  shim_.Run();
  shim_.Quit();
  EXPECT_EQ(shim_.WaitExit(), 0);
  EXPECT_TRUE(shim_.records().back().has_prepare_failed());
}

TEST_F(ShimRun, AMissingWorkingDirectoryIsAProblemOfPrepare) {
  shim_.bootstrap.set_working_directory("/no/such/dir");
  shim_.AddProbe({});
  EXPECT_FALSE(shim_.StartAndPrepare());
  EXPECT_THAT(shim_.Problems(), ContainsRegex("working-directory: .*'/no/such/dir'.*ENOENT"));
}

TEST_F(ShimRun, AnEnvironmentThatIsTooLongInAllNamesTheLargestVariable) {
  auto& rank = shim_.AddProbe({});
  rank.add_env("LARGEST=" + std::string(130'000, 'x'));
  for (int i = 0; i < 60; ++i) {
    rank.add_env("V" + std::to_string(i) + "=" + std::string(120'000, 'x'));
  }
  EXPECT_FALSE(shim_.StartAndPrepare());
  EXPECT_THAT(shim_.Problems(), ContainsRegex("arguments: .*too long together.*LARGEST"));
}

TEST_F(ShimRun, AVariableOfTheLargestLengthReachesTheRank) {
  shim_.AddProbe({"--report"}).add_env("V=" + std::string(131'069, 'x'));
  ASSERT_TRUE(shim_.RunToEnd());
  EXPECT_THAT(shim_.Log(0).stdout_bytes, HasSubstr("V=" + std::string(131'069, 'x') + "\""));
}

TEST_F(ShimRun, ARankFindsACleanProcess) {
  // What the shim inherits and must not pass on.
  const int leak = ::open("/dev/zero", O_RDONLY);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction before = {};
  ::sigaction(SIGUSR2, &ignore, &before);
  sigset_t blocked, old;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  sigaddset(&blocked, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &blocked, &old);
  struct rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const struct rlimit low = {256, limit.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &low);

  auto& rank = shim_.AddProbe({"--report", "--print", "a b\xff\"$x"});
  rank.add_env("ODD=\x01\xfe=x");
  rank.add_env("MASTER_ADDR=old");
  ASSERT_TRUE(shim_.StartAndPrepare());
  ::close(leak);
  ::sigaction(SIGUSR2, &before, nullptr);
  ::sigprocmask(SIG_SETMASK, &old, nullptr);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  shim_.Run({"MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500"});
  ASSERT_NE(shim_.WaitStopped(), nullptr);

  const std::string report = shim_.Log(0).stdout_bytes;
  EXPECT_THAT(report, HasSubstr(R"("--print", "a b\u00ff\u0022$x"])"));
  EXPECT_THAT(report, HasSubstr(R"("ODD=\u0001\u00fe=x")"));
  EXPECT_THAT(report, HasSubstr(R"("MASTER_ADDR=10.0.0.1")"));
  EXPECT_THAT(report, HasSubstr(R"("MASTER_PORT=29500")"));
  EXPECT_THAT(report, Not(HasSubstr("MASTER_ADDR=old")));
  EXPECT_THAT(report, HasSubstr("\"cwd\": \"" + folder_.path() + "\""));
  EXPECT_THAT(report,
              ContainsRegex(R"("fds": \{"0": "/dev/null", "1": "pipe:[^,]*, "2": "pipe:[^,]*\})"));
  EXPECT_THAT(report, HasSubstr(R"("SigBlk": "0000000000000000", "SigIgn": "0000000000000000")"));
  EXPECT_THAT(report, HasSubstr("\"death_signal\": 9"));
  EXPECT_THAT(report, HasSubstr("\"oom_score_adj\": 0"));
  EXPECT_THAT(report, HasSubstr("\"nice\": " + std::to_string(::getpriority(PRIO_PROCESS, 0))));
  const std::string pid = std::to_string(shim_.WaitStarted(0, 0)->pid());
  EXPECT_THAT(report,
              HasSubstr("\"pid\": " + pid + ", \"session\": " + pid + ", \"group\": " + pid));
  const std::string hard = std::to_string(limit.rlim_max);
  EXPECT_THAT(report, HasSubstr("\"nofile\": [" + hard + ", " + hard + "]"));
  // Without limit where the shim may lift it, else as far as the hard limit goes.
  struct rlimit memory = {};
  ::getrlimit(RLIMIT_MEMLOCK, &memory);
  const std::string locked =
      memory.rlim_max == RLIM_INFINITY ? "-1" : std::to_string(memory.rlim_max);
  EXPECT_THAT(report, AnyOf(HasSubstr("\"memlock\": [-1, -1]"),
                            HasSubstr("\"memlock\": [" + locked + ", " + locked + "]")));
}

TEST_F(ShimRun, StdinOfARankIsEmpty) {
  shim_.AddRank({"cat"});
  ASSERT_TRUE(shim_.RunToEnd());
  EXPECT_EQ(shim_.WaitExited(0, 0)->value(), 0);
}

TEST_F(ShimRun, SignalsGoToTheChosenRankProcessesOnly) {
  const std::string sign = folder_.path() + "/sign.";
  for (const char* number : {"0", "1"}) {
    shim_.AddProbe({"--touch-on-signal", std::to_string(SIGUSR1), sign + number, "--touch",
                    folder_.path() + "/up." + number, "--wait-file", folder_.path() + "/go"});
  }
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  ASSERT_TRUE(Eventually([&] {
    return std::filesystem::exists(folder_.path() + "/up.0") &&
           std::filesystem::exists(folder_.path() + "/up.1");
  }));
  shim_.Signal(SIGUSR1, {1});
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(sign + "1"); }));
  EXPECT_FALSE(std::filesystem::exists(sign + "0"));
  shim_.Signal(SIGUSR1);
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(sign + "0"); }));
  std::ofstream(folder_.path() + "/go").put('x');
  ASSERT_NE(shim_.WaitStopped(), nullptr);
  EXPECT_EQ(shim_.WaitExited(0, 0)->value(), 0);
}

TEST_F(ShimRun, StartsSixtyFourRanks) {
  for (int i = 0; i < 64; ++i) shim_.AddProbe({"--print", std::to_string(i)});
  ASSERT_TRUE(shim_.RunToEnd());
  for (uint32_t rank = 0; rank < 64; ++rank) {
    ASSERT_NE(shim_.WaitExited(rank, 0), nullptr);
    EXPECT_EQ(shim_.WaitExited(rank, 0)->value(), 0);
    EXPECT_EQ(shim_.Log(rank).stdout_bytes, std::to_string(rank) + "\n");
    EXPECT_TRUE(shim_.Log(rank).end.has_value());
  }
}

TEST_F(ShimRun, ARankThatEndsIsToldWhileOthersRun) {
  shim_.AddProbe({"--exit", "3"});
  shim_.AddProbe({"--wait-file", folder_.path() + "/go"});
  ASSERT_TRUE(shim_.StartAndPrepare());
  shim_.Run();
  ASSERT_NE(shim_.WaitExited(0), nullptr);
  EXPECT_NE(shim_.WaitLogClosed(0), nullptr);
  EXPECT_EQ(shim_.WaitExited(1, 0), nullptr);
  std::ofstream(folder_.path() + "/go").put('x');
  EXPECT_NE(shim_.WaitStopped(), nullptr);
}

TEST_F(ShimRun, RefusesABootstrapThatIsNone) {
  shim_.bootstrap.Clear();
  shim_.Start();
  EXPECT_EQ(shim_.WaitExit(), 2);
}

TEST_F(ShimRun, AnAttemptIsNotBegunTwice) {
  shim_.AddProbe({});
  ASSERT_TRUE(shim_.StartAndPrepare());
  ShimClient second(folder_.path(), "a", folder_.path() + "/leases");
  second.AddProbe({});
  second.Start();
  EXPECT_EQ(second.WaitExit(), 3);
  ASSERT_EQ(::kill(shim_.pid(), SIGKILL), 0);
  EXPECT_EQ(shim_.WaitExit(), 128 + SIGKILL);
  ShimClient third(folder_.path(), "a", folder_.path() + "/leases");
  third.AddProbe({});
  third.Start();
  EXPECT_EQ(third.WaitExit(), 3);
}

}  // namespace
}  // namespace muster::testing
