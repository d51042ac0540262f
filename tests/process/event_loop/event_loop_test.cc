#include "common/io/event_loop.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace muster {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends = {-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0) {
      read.Reset(ends[0]);
      write.Reset(ends[1]);
    }
  }
  UniqueFd read, write;
};

TEST(EventLoop, RunsPostedTasksInOrder) {
  EventLoop loop;
  std::vector<int> order;
  loop.Post([&] {
    order.push_back(1);
    loop.Post([&] { order.push_back(3); });
  });
  loop.Post([&] { order.push_back(2); });
  loop.Post([&] { loop.Post([&] { loop.Stop(); }); });
  loop.Run();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(EventLoop, RunsTimersInOrderOfTime) {
  EventLoop loop;
  std::vector<int> order;
  loop.PostAfter(milliseconds(4), [&] {
    order.push_back(2);
    loop.Stop();
  });
  loop.PostAfter(milliseconds(1), [&] { order.push_back(1); });
  const auto cancelled = loop.PostAfter(milliseconds(2), [&] { order.push_back(9); });
  loop.Cancel(cancelled);
  loop.Run();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(EventLoop, TimerNeverFiresEarly) {
  EventLoop loop;
  const TimePoint start = loop.clock().Now();
  TimePoint fired;
  loop.PostAfter(milliseconds(3), [&] {
    fired = loop.clock().Now();
    loop.Stop();
  });
  loop.Run();
  EXPECT_GE(fired - start, milliseconds(3));
}

TEST(EventLoop, WakesForTasksOfOtherThreads) {
  EventLoop loop;
  std::thread other([&] { loop.Post([&] { loop.Stop(); }); });
  loop.Run();
  other.join();
}

TEST(EventLoop, CallsTheHandlerOfAReadyDescriptor) {
  EventLoop loop;
  Pipe pipe;
  std::string seen;
  loop.WatchFd(pipe.read.get(), EPOLLIN, [&](uint32_t) {
    std::array<char, 16> buffer;
    const ssize_t count = ::read(pipe.read.get(), buffer.data(), buffer.size());
    ASSERT_GT(count, 0);
    seen.append(buffer.data(), static_cast<size_t>(count));
    loop.Stop();
  });
  ASSERT_EQ(::write(pipe.write.get(), "hello", 5), 5);
  loop.Run();
  EXPECT_EQ(seen, "hello");
}

TEST(EventLoop, HandlerMayUnwatchItself) {
  EventLoop loop;
  Pipe pipe;
  int calls = 0;
  loop.WatchFd(pipe.read.get(), EPOLLIN, [&](uint32_t) {
    ++calls;
    loop.UnwatchFd(pipe.read.get());
    loop.Post([&] { loop.Stop(); });
  });
  ASSERT_EQ(::write(pipe.write.get(), "x", 1), 1);
  loop.Run();
  EXPECT_EQ(calls, 1);
}

TEST(EventLoop, ForgetsEventsOfADescriptorThatWasReplaced) {
  // Both pipes are ready in one turn; the first handler closes the second pipe and watches a new
  // one, which gets the same number and is not ready.
  EventLoop loop;
  Pipe first;
  auto second = std::make_unique<Pipe>();
  auto third = std::unique_ptr<Pipe>();
  int stale = 0;
  auto replace = [&] {
    if (third != nullptr) return;
    loop.UnwatchFd(second->read.get());
    second.reset();
    third = std::make_unique<Pipe>();
    loop.WatchFd(third->read.get(), EPOLLIN, [&](uint32_t) { ++stale; });
    loop.UnwatchFd(first.read.get());
    loop.Post([&] { loop.Stop(); });
  };
  loop.WatchFd(first.read.get(), EPOLLIN, [&](uint32_t) { replace(); });
  loop.WatchFd(second->read.get(), EPOLLIN, [&](uint32_t) { replace(); });
  ASSERT_EQ(::write(first.write.get(), "x", 1), 1);
  ASSERT_EQ(::write(second->write.get(), "x", 1), 1);
  loop.Run();
  EXPECT_EQ(stale, 0);
}

}  // namespace
}  // namespace muster
