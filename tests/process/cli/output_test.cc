#include "coordinator/cli/output.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>

#include "tests/process/cli/pipes.h"

namespace muster {
namespace {

using testing::Pipe;
using testing::ReadFile;
using testing::TemporaryFolder;

// Writes until nothing more goes and returns how much did.
size_t Fill(Output& output) {
  const std::string block(100'000, 'x');
  size_t total = 0;
  for (ptrdiff_t written = 1; written > 0;) {
    written = output.Write(block);
    if (written > 0) total += static_cast<size_t>(written);
  }
  return total;
}

TEST(Output, NeverWaitsForAFullPipe) {
  Pipe pipe;
  Output output(pipe.write_fd());
  const size_t total = Fill(output);
  EXPECT_GT(total, 0u);
  EXPECT_EQ(output.error(), 0);
  EXPECT_FALSE(output.Wait(-1, std::chrono::milliseconds(1)));
  EXPECT_EQ(pipe.ReadBytes(total).size(), total);
  EXPECT_TRUE(output.Wait(-1, std::chrono::milliseconds(1)));
  EXPECT_GT(output.Write("more"), 0);
}

TEST(Output, LeavesTheFlagsOfTheSharedDescriptorAlone) {
  Pipe pipe;
  Output output(pipe.write_fd());
  EXPECT_EQ(::fcntl(pipe.write_fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(Output, ReportsAClosedPipe) {
  Pipe pipe;
  Output output(pipe.write_fd());
  pipe.CloseRead();
  EXPECT_EQ(output.Write("x"), -1);
  EXPECT_EQ(output.error(), EPIPE);
  EXPECT_EQ(output.Write("x"), -1);
}

TEST(Output, ReportsAPipeThatWasClosedBefore) {
  Pipe pipe;
  pipe.CloseRead();
  Output output(pipe.write_fd());
  EXPECT_EQ(output.Write("x"), -1);
  EXPECT_EQ(output.error(), EPIPE);
}

TEST(Output, NeverWaitsForASocket) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd here(ends[0]);
  UniqueFd there(ends[1]);
  Output output(here.get());
  EXPECT_GT(Fill(output), 0u);
  there.Reset();
  EXPECT_EQ(output.Write("x"), -1);
}

TEST(Output, AppendsToAFile) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(fd.get(), "a", 1), 1);
  Output output(fd.get());
  EXPECT_EQ(output.Write("b"), 1);
  EXPECT_EQ(ReadFile(path), "ab");
}

TEST(Output, ReportsADescriptorThatIsNotOpen) {
  Output output(999);
  EXPECT_EQ(output.Write("x"), -1);
  EXPECT_EQ(output.error(), EBADF);
}

TEST(Output, WakesUpWhenAsked) {
  Pipe pipe;
  Pipe wake;
  Output output(pipe.write_fd());
  Fill(output);
  ASSERT_EQ(::write(wake.write_fd(), "x", 1), 1);
  // Without the wake-up this would last for ever.
  EXPECT_FALSE(output.Wait(wake.read_fd(), std::chrono::milliseconds(-1)));
}

}  // namespace
}  // namespace muster
