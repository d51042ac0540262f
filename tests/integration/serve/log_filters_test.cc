// `coordinator logs` with its filters, which run in the coordinator, against the same output chosen
// by hand.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/sandbox/cluster.h"

namespace muster {
namespace {

using testing::Cluster;
using testing::CommandRun;
using ::testing::HasSubstr;
using testing::WaitUntil;

class LogFilters : public ::testing::Test {
 protected:
  LogFilters() : cluster_(2, 1), box_(cluster_.box()) {
    // Writes 2000 lines on both streams and the beginning of one, and goes on when it may.
    box_.Write("r.py", R"(import os, sys, time
rank = os.environ['RANK']
for i in range(2000):
    stream = sys.stderr if i % 7 == 0 else sys.stdout
    stream.write('rank %s line %d%s\n' % (rank, i, ' rare' if i % 500 == 3 else ''))
    stream.flush()
sys.stdout.write(' 50%\r 100%\nbegun ')
sys.stdout.flush()
open('up.' + rank, 'w').close()
while not os.path.exists('go'):
    time.sleep(0.01)
sys.stdout.write('and rare\nlast line\nno newline')
)");
    box_.Write("job.yaml", "hostfile: hosts\nscript: r.py\n");
    cluster_.Start();
    job_ = cluster_.Submit();
    EXPECT_TRUE(box_.WaitFor("up.0"));
    EXPECT_TRUE(box_.WaitFor("up.1"));
    for (const std::string rank : {"0", "1"}) {
      EXPECT_TRUE(WaitUntil([&] {
        const std::string all = Logs({"--rank", rank});
        return all.find("begun") != std::string::npos &&
               all.find("line 1995\n") != std::string::npos;
      }));
    }
  }
  void End() {
    box_.Write("go", "");
    EXPECT_EQ(cluster_.WaitJob(job_), 0);
  }
  CommandRun StartLogs(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"logs", job_});
    return box_.Start(flags);
  }
  std::string Logs(const std::vector<std::string>& flags) {
    CommandRun command = StartLogs(flags);
    EXPECT_EQ(command.Wait(), 0) << command.err();
    return command.out();
  }
  static std::vector<std::string> LinesWith(const std::string& text, const std::string& part) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      if (line.find(part) != std::string::npos) lines.push_back(line);
    }
    return lines;
  }
  static std::string Join(const std::vector<std::string>& lines, size_t last) {
    std::string text;
    for (size_t i = lines.size() - std::min(last, lines.size()); i < lines.size(); ++i) {
      text += lines[i] + "\n";
    }
    return text;
  }

  Cluster cluster_;
  testing::Sandbox& box_;
  std::string job_;
};

TEST_F(LogFilters, ChooseTheSameAsFromTheWholeOutput) {
  End();
  const std::string all = Logs({"--rank", "1"});
  ASSERT_EQ(LinesWith(all, "").size(), 2004u);
  EXPECT_THAT(all, HasSubstr("[1@node-2]  100%\n")) << "a progress bar shows its newest state";
  const std::string out = Logs({"--rank", "1", "--stream", "out"});
  EXPECT_EQ(
      LinesWith(out, "").size() + LinesWith(Logs({"--rank", "1", "--stream", "err"}), "").size(),
      2004u);
  EXPECT_EQ(Logs({"--rank", "1", "--grep", "rare"}), Join(LinesWith(all, "rare"), 99));
  EXPECT_EQ(Logs({"--rank", "1", "--grep", "rare", "--tail", "2"}),
            Join(LinesWith(all, "rare"), 2));
  EXPECT_EQ(Logs({"--rank", "1", "--stream", "out", "--grep", "line .*5", "--tail", "30"}),
            Join(LinesWith(Join(LinesWith(out, "line "), 9999), "5"), 30));
  EXPECT_EQ(Logs({"--rank", "1", "--tail", "3"}), Join(LinesWith(all, ""), 3));
  EXPECT_EQ(Logs({"--rank", "1", "--tail", "0"}), "");
  EXPECT_EQ(Logs({"--rank", "1", "--grep", "50%"}), "") << "it is overwritten";
  EXPECT_EQ(Logs({"--rank", "1", "--grep", "^no newline$"}), "[1@node-2] no newline\n");
  EXPECT_EQ(Logs({"--tail", "1"}), "[0@node-1] no newline\n[1@node-2] no newline\n");
  EXPECT_EQ(LinesWith(Logs({"--grep", "rare", "--order", "time", "-o", "json"}), "\"text\"").size(),
            10u);
  EXPECT_EQ(Logs({"--since", "1h", "--rank", "1"}), all);
  EXPECT_EQ(Logs({"--since", "2035-01-01", "--grep", "rare"}), "");
  CommandRun refused = box_.Run({"logs", job_, "--grep", "a(b"});
  EXPECT_EQ(refused.Wait(), 2);
  EXPECT_THAT(refused.err(), HasSubstr("'a(b': missing )"));
}

TEST_F(LogFilters, FollowFromTheLastLinesOn) {
  EXPECT_EQ(Logs({"--rank", "0", "--grep", "begun"}), "[0@node-1] begun \n") << "so far";
  CommandRun follow = StartLogs({"-f", "--rank", "0", "--grep", "rare", "--tail", "1"});
  const std::string past = "[0@node-1] rank 0 line 1503 rare\n";
  EXPECT_TRUE(WaitUntil([&] { return follow.out() == past; })) << follow.out();
  End();
  EXPECT_EQ(follow.Wait(), 0) << follow.err();
  EXPECT_EQ(follow.out(), past + "[0@node-1] begun and rare\n");
}

TEST_F(LogFilters, GoOnWhenTheCoordinatorComesBack) {
  CommandRun follow = StartLogs({"-f", "--rank", "0", "--grep", "rare|last"});
  EXPECT_TRUE(WaitUntil([&] { return follow.out().find("1503 rare\n") != std::string::npos; }));
  cluster_.KillCoordinator();
  box_.Write("go", "");
  cluster_.StartCoordinator();
  EXPECT_EQ(follow.Wait(), 0) << follow.err();
  EXPECT_EQ(follow.out(), Logs({"--rank", "0", "--grep", "rare|last"}));
  EXPECT_EQ(LinesWith(follow.out(), "").size(), 6u);
}

TEST_F(LogFilters, HideNoLoss) {
  End();
  // The first frame ends where the next one begins; a flipped header there hides the rest.
  const std::string path = box_.path() + "/state/logs/" + job_ + "/1/rank-00000.log";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  const size_t second = bytes.str().find("MLOG", 1);
  ASSERT_NE(second, std::string::npos);
  file.seekp(static_cast<std::streamoff>(second));
  file << "XXXX" << std::flush;
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--grep", "no such line"}, {"--stream", "out", "--tail", "3"}, {"--raw"}}) {
    CommandRun command = StartLogs(flags);
    EXPECT_EQ(command.Wait(), 0);
    EXPECT_THAT(command.err(), HasSubstr("warning: output is missing")) << flags[0];
  }
  EXPECT_THAT(Logs({"--rank", "0"}), HasSubstr("the stored log is damaged at byte "));
  CommandRun whole = StartLogs({"--rank", "1", "--grep", "no such line"});
  EXPECT_EQ(whole.Wait(), 0);
  EXPECT_EQ(whole.err(), "") << "nothing is missing";
}

}  // namespace
}  // namespace muster
