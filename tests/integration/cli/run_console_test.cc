// The console and the log files of `coordinator spawn --local`.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using testing::CommandRun;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Sandbox;
using testing::Seconds;
using testing::WaitUntil;

TEST(RunConsole, ShowsALineBeforeTheRankEnds) {
  Sandbox box;
  box.Hosts(1, 1);
  box.Write("r.py",
            "import os,time\nprint('step 1')\nwhile not os.path.exists('go'): time.sleep(0.05)\n");
  CommandRun run = box.Start({"spawn", "--hostfile", "hosts", "r.py"});
  EXPECT_TRUE(WaitUntil([&] { return run.out() == "[0@node-1] step 1\n"; }, Seconds(10)))
      << run.out() << run.err();
  box.Write("go", "");
  EXPECT_EQ(run.Wait(), 0);
}

TEST(RunConsole, KeepsLongLinesAndTheLastWords) {
  Sandbox box;
  box.Hosts(2, 1);
  box.Write("r.py", R"(import os, signal, sys, time
if os.environ['RANK'] == '1':
    sys.stdout.write('start\n' + 'b' * 6000000 + '\n')
    for i in range(500):
        sys.stdout.write('tail %d\n' % i)
    sys.stdout.write('x' * 100000 + 'END')
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(60)
)");
  CommandRun run =
      box.Run({"spawn", "--hostfile", "hosts", "--grace", "1", "--log-dir", "logs", "r.py"});
  EXPECT_EQ(run.Wait(), 137) << run.err();
  const std::string log = box.Read("logs/latest/rank_1.log");
  EXPECT_EQ(log.size(), 6u + 6000001 + 10 * 7 + 90 * 8 + 400 * 9 + 100003);
  EXPECT_THAT(log, EndsWith("xxEND"));
  const std::string out = run.out();
  EXPECT_THAT(out, HasSubstr("[1@node-2] tail 499\n"));
  EXPECT_THAT(out, EndsWith("xxEND\n"));
}

TEST(RunConsole, StalledReaderHoldsUpNoRank) {
  Sandbox box;
  box.Hosts(2, 1);
  box.Write("r.py", R"(import os, sys
for i in range(50000):
    sys.stdout.write('y' * 199 + '\n')
sys.stdout.flush()
open('done.' + os.environ['RANK'], 'w').close()
)");
  CommandRun run = box.Start({"spawn", "--hostfile", "hosts", "--log-dir", "logs", "r.py"},
                             Sandbox::Stdout::kPipe);
  EXPECT_TRUE(box.WaitFor("done.0") && box.WaitFor("done.1")) << run.err();
  // Now somebody reads: everything comes.
  size_t bytes = 0;
  const auto drain = [&] {
    char buffer[65536];
    pollfd ready = {run.out_pipe().get(), POLLIN, 0};
    while (::poll(&ready, 1, 0) > 0) {
      const ssize_t count = ::read(run.out_pipe().get(), buffer, sizeof(buffer));
      if (count <= 0) return true;
      bytes += static_cast<size_t>(count);
    }
    return false;
  };
  EXPECT_TRUE(WaitUntil(drain, Seconds(60)));
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_EQ(bytes, 2u * 50000 * (200 + 11));
  EXPECT_EQ(box.Read("logs/latest/rank_0.log").size(), 50000u * 200);
}

TEST(RunConsole, ClosedReaderDoesNotEndTheJob) {
  Sandbox box;
  box.Hosts(2, 1);
  box.Write("r.py", R"(import os
for i in range(3000):
    print('line', i)
open('done.' + os.environ['RANK'], 'w').close()
)");
  CommandRun run = box.Start({"spawn", "--hostfile", "hosts", "r.py"}, Sandbox::Stdout::kPipe);
  run.out_pipe().Reset();
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_TRUE(box.Has("done.0") && box.Has("done.1"));
  EXPECT_THAT(run.err(), HasSubstr("stdout was closed"));
}

TEST(RunConsole, AReaderThatLeavesAfterOneLineDoesNotEndTheJob) {
  Sandbox box;
  box.Hosts(2, 1);
  box.Write("r.py", R"(import os, time
print('first', flush=True)
while not os.path.exists('go'):
    time.sleep(0.02)
for i in range(3000):
    print('line', i)
open('done.' + os.environ['RANK'], 'w').close()
)");
  CommandRun run = box.Start({"spawn", "--hostfile", "hosts", "--log-dir", "logs", "r.py"},
                             Sandbox::Stdout::kPipe);
  char byte = 0;
  while (byte != '\n') ASSERT_EQ(::read(run.out_pipe().get(), &byte, 1), 1) << run.err();
  run.out_pipe().Reset();
  box.Write("go", "");
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_TRUE(box.Has("done.0") && box.Has("done.1"));
  EXPECT_THAT(box.Read("logs/latest/rank_1.log"), EndsWith("line 2999\n"));
}

TEST(RunConsole, EndsOnATerminalAndLeavesTypedTextToTheShell) {
  Sandbox box;
  box.Hosts(2, 1);
  box.Write("r.py", R"(import os, sys
print('READ', repr(sys.stdin.read()), os.isatty(1), flush=True)
)");
  CommandRun run = box.Start({"spawn", "--hostfile", "hosts", "r.py"}, Sandbox::Stdout::kTerminal);
  const UniqueFd& terminal = run.out_pipe();
  ASSERT_EQ(::write(terminal.get(), "typed\n", 6), 6);
  // Held open here, so that what was typed outlives the command.
  const UniqueFd other_end(::open(::ptsname(terminal.get()), O_RDONLY | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(other_end);
  std::string shown;
  EXPECT_TRUE(WaitUntil([&] {
    const bool ended = run.ended();
    pollfd ready = {terminal.get(), POLLIN, 0};
    char buffer[4096];
    while (::poll(&ready, 1, 0) > 0) {
      const ssize_t count = ::read(terminal.get(), buffer, sizeof(buffer));
      if (count <= 0) break;
      shown.append(buffer, static_cast<size_t>(count));
    }
    return ended;
  })) << shown;
  EXPECT_EQ(run.Wait(), 0) << shown;
  EXPECT_THAT(shown, HasSubstr("[0@node-1] READ '' False"));
  EXPECT_THAT(shown, HasSubstr("[1@node-2] READ '' False"));
  char buffer[16];
  ASSERT_EQ(::read(other_end.get(), buffer, sizeof(buffer)), 6);
  EXPECT_EQ(std::string(buffer, 6), "typed\n");
}

TEST(RunConsole, NeverReadsStdin) {
  Sandbox box;
  box.Hosts(1, 1);
  box.Write("r.py", "import sys\nprint('READ', repr(sys.stdin.read()))\n");
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  ASSERT_EQ(::write(writing.get(), "kept", 4), 4);
  CommandRun run =
      box.Start({"spawn", "--hostfile", "hosts", "r.py"}, Sandbox::Stdout::kFile, reading.get());
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_EQ(run.out(), "[0@node-1] READ ''\n");
  char buffer[16];
  EXPECT_EQ(::read(reading.get(), buffer, sizeof(buffer)), 4);
}

TEST(RunLogs, HoldBothStreamsAndEarlierRuns) {
  Sandbox box;
  box.Hosts(2, 2);
  box.Write("r.py",
            "import os,sys\nprint('run',sys.argv[1],'rank',os.environ['RANK'])\n"
            "print('err',file=sys.stderr)\n");
  EXPECT_EQ(box.Run({"spawn", "--hostfile", "hosts", "--log_dir", "logs", "r.py", "one"}).Wait(),
            0);
  const std::string first = std::filesystem::read_symlink(box.Path("logs/latest"));
  EXPECT_EQ(box.Run({"spawn", "--hostfile", "hosts", "--log_dir", "logs", "r.py", "two"}).Wait(),
            0);
  for (int rank = 0; rank < 4; ++rank) {
    const std::string number = std::to_string(rank);
    EXPECT_EQ(box.Read("logs/" + first + "/rank_" + number + ".log"),
              "run one rank " + number + "\nerr\n");
    EXPECT_EQ(box.Read("logs/latest/rank_" + number + ".log"),
              "run two rank " + number + "\nerr\n");
  }
}

TEST(RunLogs, AFullDiskDoesNotStopTheRanks) {
  Sandbox box;
  box.Hosts(2, 1);
  box.Write("r.py", R"(import os, sys
for i in range(5000):
    sys.stdout.write('z' * 199 + '\n')
sys.stdout.flush()
open('done.' + os.environ['RANK'], 'w').close()
)");
  // No file of any program may grow further: as on a full disk, but for this command only.
  box.LimitSoftly(RLIMIT_FSIZE, 65536);
  CommandRun run = box.Start({"spawn", "--hostfile", "hosts", "--log-dir", "logs", "r.py"},
                             Sandbox::Stdout::kPipe);
  char buffer[65536];
  while (::read(run.out_pipe().get(), buffer, sizeof(buffer)) > 0) {
  }
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_TRUE(box.Has("done.0") && box.Has("done.1"));
  EXPECT_THAT(run.err(), HasSubstr("log"));
  EXPECT_THAT(run.err(), HasSubstr("of output were lost"));
}

TEST(RunLogs, UnusableFolderIsRefusedBeforeTheStart) {
  Sandbox box;
  box.Hosts(1, 1);
  box.Write("notadir", "x");
  box.Write("r.py", "open('started','w')\n");
  CommandRun run = box.Run({"spawn", "--hostfile", "hosts", "--log_dir", "notadir", "r.py"});
  EXPECT_EQ(run.Wait(), 2);
  EXPECT_THAT(run.err(), HasSubstr("notadir"));
  EXPECT_FALSE(box.Has("started"));
}

}  // namespace
}  // namespace muster
