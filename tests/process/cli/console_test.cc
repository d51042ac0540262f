#include "coordinator/cli/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/process/cli/pipes.h"
#include "tests/process/cli/scripted_source.h"
#include "tests/unit/cli/log_bytes.h"

namespace muster {
namespace {

using testing::Event;
using testing::OutFrame;
using testing::Piece;
using testing::Pipe;
using testing::ScriptedSource;

Console::Options OptionsFor(const Pipe& pipe) {
  Console::Options options;
  options.fd = pipe.write_fd();
  options.view.host_of = [](uint32_t) { return "h"; };
  return options;
}

// Pieces of rank 0 that hold `lines` lines of `bytes` bytes each.
ScriptedSource::Call Flood(int lines, size_t bytes) {
  ScriptedSource::Call call;
  std::string frames;
  uint64_t offset = 0;
  const std::string line = std::string(bytes - 1, 'y') + "\n";
  for (int i = 0; i < lines; ++i) {
    frames += OutFrame(line);
    if (frames.size() >= 100'000 || i + 1 == lines) {
      const uint64_t size = frames.size();
      call.pieces.push_back(Piece(0, offset, std::move(frames), i + 1 == lines));
      frames.clear();
      offset += size;
    }
  }
  return call;
}

TEST(Console, ShowsEverythingInOrder) {
  Pipe pipe;
  ScriptedSource source;
  source.AddCall(
      {{Piece(0, 0, OutFrame("a\nb\n")), Piece(1, 0, OutFrame("tail"), true)}, {}, false});
  Event done;
  Console console(source, OptionsFor(pipe), {nullptr, [&] { done.Set(); }});
  ASSERT_TRUE(done.Wait());
  EXPECT_EQ(pipe.Read(), "[0@h] a\n[0@h] b\n[1@h] tail\n");
  EXPECT_TRUE(console.result().read_status.ok());
}

TEST(Console, ShowsALineWhileTheStreamIsIdle) {
  Pipe pipe;
  ScriptedSource source;
  source.AddCall({{Piece(0, 0, OutFrame("step 1\nhalf"))}, {}, true});
  Console console(source, OptionsFor(pipe), {});
  EXPECT_EQ(pipe.ReadBytes(13), "[0@h] step 1\n");
}

TEST(Console, ShowsProgressBarsWhileOthersWrite) {
  Pipe pipe;
  ScriptedSource source;
  ScriptedSource::Call call = Flood(100'000, 100);
  call.pieces.insert(call.pieces.begin(), Piece(1, 0, OutFrame("10%\r20%\r")));
  source.AddCall(std::move(call));
  Console::Options options = OptionsFor(pipe);
  options.progress_interval = std::chrono::milliseconds(0);
  Console console(source, std::move(options), {});
  const std::string bar = "[1@h] 20%\n";
  const std::string shown = pipe.ReadBytes(bar.size() + 100'000 * (100 + 6));
  // The other rank writes more than the console can hold: it never pauses.
  EXPECT_LT(shown.find(bar), shown.size() - bar.size());
}

TEST(Console, WaitsForASlowReaderWhileTheJobRuns) {
  Pipe pipe;
  ScriptedSource source;
  source.AddCall(Flood(100'000, 100));
  Event done;
  Console::Options options = OptionsFor(pipe);
  options.patience = std::chrono::milliseconds(1);
  Console console(source, std::move(options), {nullptr, [&] { done.Set(); }});
  // Nothing is given up before the end of the job, whatever the patience.
  EXPECT_FALSE(done.Wait(std::chrono::milliseconds(50)));
  const size_t expected = 100'000 * (100 + 6);
  EXPECT_EQ(pipe.ReadBytes(expected).size(), expected);
  ASSERT_TRUE(done.Wait());
  EXPECT_FALSE(console.result().gave_up);
}

TEST(Console, GivesUpAfterTheEndAndCountsTheRest) {
  Pipe pipe;
  ScriptedSource source;
  source.AddCall(Flood(100'000, 100));
  Event done;
  Console::Options options = OptionsFor(pipe);
  options.patience = std::chrono::milliseconds(20);
  Console console(source, std::move(options), {nullptr, [&] { done.Set(); }});
  console.EndOfJob();
  ASSERT_TRUE(done.Wait());
  const Console::Result result = console.result();
  EXPECT_TRUE(result.gave_up);
  const std::string shown = pipe.Read();
  EXPECT_EQ(shown.size() + result.unshown_bytes, 100'000u * (100 + 6));
  EXPECT_EQ(
      static_cast<uint64_t>(std::count(shown.begin(), shown.end(), '\n')) + result.unshown_lines,
      100'000u);
}

TEST(Console, StopsWhenTheReaderIsGone) {
  Pipe pipe;
  ScriptedSource source;
  source.AddCall(Flood(100'000, 100));
  Event done;
  Event closed;
  pipe.CloseRead();
  Console console(source, OptionsFor(pipe),
                  {[&](int error) {
                     EXPECT_EQ(error, EPIPE);
                     closed.Set();
                   },
                   [&] { done.Set(); }});
  EXPECT_TRUE(closed.Wait());
  EXPECT_TRUE(done.Wait());
  EXPECT_EQ(console.result().closed_error, EPIPE);
}

TEST(Console, CanBeLeftWhileStalled) {
  Pipe pipe;
  ScriptedSource source;
  source.AddCall(Flood(100'000, 100));
  Console console(source, OptionsFor(pipe), {});
  EXPECT_EQ(pipe.ReadBytes(1000).size() >= 1000, true);
  // The destructor must not wait for the reader.
}

}  // namespace
}  // namespace muster
