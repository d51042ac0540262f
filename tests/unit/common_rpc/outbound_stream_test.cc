#include "common/rpc/outbound_stream.h"

#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct TestMessage {
  std::string text;
  size_t ByteSizeLong() const { return text.size(); }
};

// Keeps what it was told to write, and checks that there is one write at a time.
class FakeReactor {
 public:
  void StartWrite(const TestMessage* message, grpc::WriteOptions options) {
    EXPECT_FALSE(in_flight_) << "a second write in flight aborts the process";
    in_flight_ = true;
    written_.push_back(message->text);
    held_back_.push_back(options.get_buffer_hint());
  }
  void Done(bool ok = true) {
    EXPECT_TRUE(in_flight_);
    in_flight_ = false;
    stream_->OnWriteDone(ok);
  }
  void Attach(OutboundStream<FakeReactor, TestMessage>* stream) { stream_ = stream; }
  bool in_flight() const { return in_flight_; }
  const std::vector<std::string>& written() const { return written_; }
  // Whether the transport was told that more follows, message by message.
  const std::vector<bool>& held_back() const { return held_back_; }

 private:
  OutboundStream<FakeReactor, TestMessage>* stream_ = nullptr;
  bool in_flight_ = false;
  std::vector<std::string> written_;
  std::vector<bool> held_back_;
};

class OutboundStreamTest : public testing::Test {
 protected:
  OutboundStreamTest() { reactor_.Attach(&stream_); }
  SendResult Send(const std::string& text) { return stream_.Send(TestMessage{text}); }

  FakeReactor reactor_;
  OutboundStream<FakeReactor, TestMessage> stream_{&reactor_,
                                                   {.max_messages = 4, .max_bytes = 100}};
};

TEST_F(OutboundStreamTest, WritesOneAtATimeInOrder) {
  Send("a");
  Send("b");
  Send("c");
  EXPECT_THAT(reactor_.written(), ElementsAre("a"));
  reactor_.Done();
  EXPECT_THAT(reactor_.written(), ElementsAre("a", "b"));
  reactor_.Done();
  reactor_.Done();
  EXPECT_THAT(reactor_.written(), ElementsAre("a", "b", "c"));
  EXPECT_FALSE(reactor_.in_flight());
  EXPECT_EQ(stream_.queued_messages(), 0u);
  EXPECT_EQ(stream_.queued_bytes(), 0u);
}

TEST_F(OutboundStreamTest, OnlyAMessageThatAnotherOneFollowsMayBeHeldBack) {
  Send("a");
  Send("b");
  Send("c");
  for (int i = 0; i < 3; ++i) reactor_.Done();
  Send("d");
  reactor_.Done();
  EXPECT_THAT(reactor_.written(), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(reactor_.held_back(), ElementsAre(false, true, false, false));
}

TEST_F(OutboundStreamTest, TheLastMessageBeforeTheEndIsNotHeldBack) {
  Send("a");
  Send("b");
  stream_.CloseAfterFlush([](bool) {});
  reactor_.Done();
  reactor_.Done();
  EXPECT_THAT(reactor_.held_back(), ElementsAre(false, false));
}

TEST_F(OutboundStreamTest, IsBoundedByMessages) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Send("x"), SendResult::kQueued);
  TestMessage message{"kept"};
  EXPECT_EQ(stream_.Send(std::move(message)), SendResult::kFull);
  EXPECT_EQ(message.text, "kept");
  reactor_.Done();
  EXPECT_EQ(Send("y"), SendResult::kQueued);
}

TEST_F(OutboundStreamTest, IsBoundedByBytes) {
  EXPECT_EQ(Send(std::string(1000, 'x')), SendResult::kQueued) << "one message always fits";
  EXPECT_EQ(Send("x"), SendResult::kFull);
  reactor_.Done();
  EXPECT_EQ(Send(std::string(60, 'x')), SendResult::kQueued);
  EXPECT_EQ(Send(std::string(60, 'x')), SendResult::kFull);
  EXPECT_EQ(Send(std::string(40, 'x')), SendResult::kQueued);
}

TEST_F(OutboundStreamTest, ReplacesOnlyWhatWaits) {
  const auto same = [](const TestMessage& m) { return m.text[0] == 'k'; };
  stream_.SendOrReplace(TestMessage{"k1"}, same);
  stream_.SendOrReplace(TestMessage{"k2"}, same);
  Send("other");
  stream_.SendOrReplace(TestMessage{"k3-long"}, same);
  EXPECT_EQ(stream_.queued_messages(), 3u);
  EXPECT_EQ(stream_.queued_bytes(), 2u + 7u + 5u);
  for (int i = 0; i < 3; ++i) reactor_.Done();
  EXPECT_THAT(reactor_.written(), ElementsAre("k1", "k3-long", "other"));
}

TEST_F(OutboundStreamTest, ClosesAtOnceWhenNothingIsInFlight) {
  std::vector<bool> closed;
  stream_.CloseAfterFlush([&](bool flushed) { closed.push_back(flushed); });
  EXPECT_THAT(closed, ElementsAre(true));
  EXPECT_EQ(Send("late"), SendResult::kClosed);
}

TEST_F(OutboundStreamTest, FlushesBeforeItCloses) {
  std::vector<bool> closed;
  Send("a");
  Send("b");
  stream_.CloseAfterFlush([&](bool flushed) { closed.push_back(flushed); });
  EXPECT_EQ(Send("late"), SendResult::kClosed);
  reactor_.Done();
  EXPECT_THAT(closed, IsEmpty());
  reactor_.Done();
  EXPECT_THAT(closed, ElementsAre(true));
  EXPECT_THAT(reactor_.written(), ElementsAre("a", "b"));
}

TEST_F(OutboundStreamTest, DropsWhatWaitsWhenItIsClosed) {
  std::vector<bool> closed;
  Send("a");
  Send("b");
  stream_.Close([&](bool flushed) { closed.push_back(flushed); });
  EXPECT_THAT(closed, IsEmpty()) << "not while a write is in flight";
  reactor_.Done();
  EXPECT_THAT(closed, ElementsAre(false));
  EXPECT_THAT(reactor_.written(), ElementsAre("a"));
}

TEST_F(OutboundStreamTest, KeepsTheFirstCallbackWhenClosedTwice) {
  std::vector<std::string> closed;
  Send("a");
  Send("b");
  stream_.CloseAfterFlush([&](bool flushed) { closed.push_back(flushed ? "yes" : "no"); });
  stream_.Close([&](bool) { closed.push_back("second"); });
  reactor_.Done();
  EXPECT_THAT(closed, ElementsAre("no"));
}

TEST_F(OutboundStreamTest, StopsAtAFailedWrite) {
  Send("a");
  Send("b");
  reactor_.Done(false);
  EXPECT_THAT(reactor_.written(), ElementsAre("a"));
  EXPECT_EQ(Send("c"), SendResult::kClosed);
  EXPECT_EQ(stream_.queued_bytes(), 0u);
  std::vector<bool> closed;
  stream_.CloseAfterFlush([&](bool flushed) { closed.push_back(flushed); });
  EXPECT_THAT(closed, ElementsAre(false));
}

// A transport on a thread of its own.
class ThreadedReactor {
 public:
  ThreadedReactor() : thread_([this] { Run(); }) {}
  ~ThreadedReactor() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  void StartWrite(const TestMessage* message, grpc::WriteOptions) {
    std::lock_guard lock(mutex_);
    EXPECT_EQ(message_, nullptr);
    message_ = message;
    wake_.notify_all();
  }
  OutboundStream<ThreadedReactor, TestMessage>& stream() { return stream_; }
  size_t count() {
    std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  void Run() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stop_ || message_ != nullptr; });
        if (message_ == nullptr) return;
        EXPECT_EQ(message_->text.size(), 3u);
        ++count_;
        message_ = nullptr;
      }
      stream_.OnWriteDone(true);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  const TestMessage* message_ = nullptr;
  size_t count_ = 0;
  bool stop_ = false;
  OutboundStream<ThreadedReactor, TestMessage> stream_{this, {.max_messages = 100'000}};
  std::thread thread_;
};

TEST(OutboundStream, TakesMessagesOfManyThreads) {
  ThreadedReactor reactor;
  std::vector<std::thread> senders;
  for (int t = 0; t < 4; ++t) {
    senders.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        EXPECT_EQ(reactor.stream().Send(TestMessage{"abc"}), SendResult::kQueued);
      }
    });
  }
  for (std::thread& sender : senders) sender.join();
  std::mutex mutex;
  std::condition_variable done;
  bool closed = false;
  reactor.stream().CloseAfterFlush([&](bool flushed) {
    EXPECT_TRUE(flushed);
    std::lock_guard lock(mutex);
    closed = true;
    done.notify_all();
  });
  std::unique_lock lock(mutex);
  EXPECT_TRUE(done.wait_for(lock, std::chrono::seconds(20), [&] { return closed; }));
  EXPECT_EQ(reactor.count(), 8000u);
}

}  // namespace
}  // namespace muster
