#include "coordinator/cli/reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/process/cli/pipes.h"

namespace muster {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::Pipe;

TEST(Reporter, PrefixesEveryLine) {
  Pipe pipe;
  Reporter reporter(pipe.write_fd());
  reporter.Say("one\ntwo");
  reporter.Print("hosts:3: bad\n");
  EXPECT_EQ(pipe.Read(), "muster: one\nmuster: two\nhosts:3: bad\n");
}

TEST(Reporter, QuietSilencesNotesOnly) {
  Pipe pipe;
  Reporter reporter(pipe.write_fd());
  reporter.Note("shown");
  reporter.set_quiet(true);
  reporter.Note("hidden");
  reporter.Say("error");
  EXPECT_EQ(pipe.Read(), "muster: shown\nmuster: error\n");
}

TEST(Reporter, ShowsNoProgressOffATerminal) {
  Pipe pipe;
  Reporter reporter(pipe.write_fd());
  reporter.Progress("waiting");
  reporter.Say("done");
  EXPECT_EQ(pipe.Read(), "muster: done\n");
}

TEST(Reporter, KeepsMessagesForAStalledReader) {
  Pipe pipe;
  Reporter reporter(pipe.write_fd());
  const std::string line(1000, 'x');
  size_t said = 0;
  while (reporter.Retry()) {
    reporter.Say(line);
    ++said;
  }
  reporter.Say("the last");
  EXPECT_FALSE(reporter.Retry());
  std::string text = pipe.Read();
  EXPECT_TRUE(reporter.Retry());
  text += pipe.Read();
  EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), said + 1);
  EXPECT_THAT(text, EndsWith("muster: the last\n"));
}

TEST(Reporter, CountsWhatItHadToDrop) {
  Pipe pipe;
  Reporter reporter(pipe.write_fd());
  const std::string line(100'000, 'x');
  for (int i = 0; i < 40; ++i) reporter.Say(line);
  std::string text = pipe.Read();
  while (!reporter.Retry()) text += pipe.Read();
  text += pipe.Read();
  EXPECT_THAT(text, HasSubstr("messages were dropped because nobody read them\n"));
}

TEST(Reporter, FlushGivesUp) {
  Pipe pipe;
  Reporter reporter(pipe.write_fd());
  const std::string line(100'000, 'x');
  for (int i = 0; i < 40; ++i) reporter.Say(line);
  reporter.Flush(std::chrono::milliseconds(10));
  EXPECT_FALSE(reporter.Retry());
}

TEST(Reporter, ForgetsWhatNobodyCanRead) {
  Pipe pipe;
  Reporter reporter(pipe.write_fd());
  pipe.CloseRead();
  reporter.Say("x");
  EXPECT_TRUE(reporter.Retry());
}

}  // namespace
}  // namespace muster
