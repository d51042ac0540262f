// The relay that other tests harm connections with: it does what it is told, and nothing else.
#include "tests/testing/relay/relay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <string>

#include "tests/process/rank_probe/seeded_bytes.h"
#include "tests/testing/relay/relay_connection.h"
#include "tests/testing/relay/relay_socket.h"

namespace muster::testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

void MakeBlocking(int fd) {
  ASSERT_EQ(::fcntl(fd, F_SETFL, 0), 0);
  // Nothing waits for ever.
  const timeval limit = {20, 0};
  ASSERT_EQ(::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
  ASSERT_EQ(::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
}

void SendAll(int fd, const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t count = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    ASSERT_GT(count, 0);
    sent += static_cast<size_t>(count);
  }
}

// As many bytes as wanted, less at an end.
std::string Receive(int fd, size_t wanted) {
  std::string bytes(wanted, '\0');
  const ssize_t count = ::recv(fd, bytes.data(), wanted, MSG_WAITALL);
  bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return bytes;
}

// What ends the connection: 0 for an orderly end, an error number otherwise.
int End(int fd) {
  char byte = 0;
  const ssize_t count = ::recv(fd, &byte, 1, 0);
  EXPECT_LE(count, 0) << "a byte came";
  return count == 0 ? 0 : errno;
}

bool WaitFor(const std::function<bool()>& ready) {
  const auto limit = Clock::now() + std::chrono::seconds(20);
  while (!ready()) {
    if (Clock::now() > limit) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

class RelayTest : public ::testing::TestWithParam<const char*> {
 protected:
  struct Pair {
    UniqueFd client;
    UniqueFd server;
  };

  RelayTest() {
    std::string name = ::testing::TempDir() + "/muster-relay-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    server_address_ = Address("server");
    listener_ = ListenAt(server_address_);
    MakeBlocking(listener_.get());
    relay_ = std::make_unique<Relay>(Address("relay"), server_address_);
  }
  ~RelayTest() override {
    relay_.reset();
    std::filesystem::remove_all(folder_);
  }

  bool tcp() const { return std::string(GetParam()) == "tcp"; }
  std::string Address(const std::string& name) const {
    return tcp() ? "127.0.0.1:0" : "unix:" + folder_ + "/" + name;
  }
  UniqueFd AcceptOne() const {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(fd) << errno;
    MakeBlocking(fd.get());
    return fd;
  }
  UniqueFd Dial() const {
    UniqueFd fd = ConnectTo(relay_->address());
    EXPECT_TRUE(fd);
    MakeBlocking(fd.get());
    return fd;
  }
  Pair Connect() const {
    UniqueFd client = Dial();
    return {std::move(client), AcceptOne()};
  }

  std::string folder_;
  std::string server_address_;
  UniqueFd listener_;
  std::unique_ptr<Relay> relay_;
};

TEST_P(RelayTest, HandsOnEveryByteAndBothEnds) {
  const Pair pair = Connect();
  const std::string up = SeededString(1, 3'000'000);
  const std::string down = SeededString(2, 2'000'000);
  auto writes_up = std::async(std::launch::async, [&] { SendAll(pair.client.get(), up); });
  auto writes_down = std::async(std::launch::async, [&] { SendAll(pair.server.get(), down); });
  auto read_down =
      std::async(std::launch::async, [&] { return Receive(pair.client.get(), 2'000'000); });
  EXPECT_TRUE(Receive(pair.server.get(), up.size()) == up);
  EXPECT_TRUE(read_down.get() == down);
  writes_up.get();
  writes_down.get();
  // One direction may end before the other.
  ASSERT_EQ(::shutdown(pair.client.get(), SHUT_WR), 0);
  EXPECT_EQ(End(pair.server.get()), 0);
  SendAll(pair.server.get(), "last");
  EXPECT_EQ(Receive(pair.client.get(), 4), "last");
  ASSERT_EQ(::shutdown(pair.server.get(), SHUT_WR), 0);
  EXPECT_EQ(End(pair.client.get()), 0);
  EXPECT_TRUE(WaitFor([&] { return relay_->counts().open == 0; }));
  EXPECT_EQ(relay_->counts().bytes_to_server, up.size());
  EXPECT_EQ(relay_->counts().bytes_to_client, down.size() + 4);
}

TEST_P(RelayTest, DelaysBytesAndKeepsTheirOrder) {
  const Pair pair = Connect();
  relay_->Set({.delay = milliseconds(80)});
  const auto begin = Clock::now();
  SendAll(pair.client.get(), "one");
  ASSERT_TRUE(WaitFor([&] { return relay_->counts().held_bytes == 3; }));
  relay_->Set({});
  SendAll(pair.client.get(), "two");
  EXPECT_EQ(Receive(pair.server.get(), 6), "onetwo");
  EXPECT_GE(Clock::now() - begin, milliseconds(80));
}

TEST_P(RelayTest, PassesNoMoreThanAThrottleAllows) {
  const Pair pair = Connect();
  relay_->Set({.bytes_per_second = 50'000});
  const std::string bytes = SeededString(3, 10'000);
  const auto begin = Clock::now();
  SendAll(pair.client.get(), bytes);
  EXPECT_TRUE(Receive(pair.server.get(), bytes.size()) == bytes);
  // At most a fiftieth of a second's worth is there from the beginning.
  EXPECT_GE(Clock::now() - begin, milliseconds(175));
}

TEST_P(RelayTest, HoldsABoundedNumberOfBytesAndThenHandsThemOn) {
  const Pair pair = Connect();
  relay_->Set({.hold_to_server = true});
  const std::string bytes = SeededString(4, 8'000'000);
  auto writer = std::async(std::launch::async, [&] { SendAll(pair.client.get(), bytes); });
  ASSERT_TRUE(WaitFor([&] { return relay_->counts().held_bytes >= RelayFlow::kMostHeldBytes; }));
  EXPECT_LE(relay_->counts().held_bytes, RelayFlow::kMostHeldBytes + 65'536);
  EXPECT_EQ(relay_->counts().bytes_to_server, 0u);
  // The other direction is not harmed.
  SendAll(pair.server.get(), "down");
  EXPECT_EQ(Receive(pair.client.get(), 4), "down");
  relay_->Set({});
  EXPECT_TRUE(Receive(pair.server.get(), bytes.size()) == bytes);
  writer.get();
}

TEST_P(RelayTest, SwallowsWithoutAWordAndCutsWhatLostSomething) {
  const Pair harmed = Connect();
  const Pair idle = Connect();
  relay_->Set({.swallow_to_server = true, .swallow_to_client = true});
  SendAll(harmed.client.get(), std::string(100'000, 'x'));
  SendAll(harmed.server.get(), "y");
  ASSERT_TRUE(WaitFor([&] { return relay_->counts().swallowed_bytes == 100'001; }));
  EXPECT_EQ(relay_->counts().bytes_to_server, 0u);
  EXPECT_EQ(relay_->counts().open, 2u);
  relay_->Set({});
  EXPECT_EQ(End(harmed.client.get()), tcp() ? ECONNRESET : 0);
  EXPECT_EQ(End(harmed.server.get()), tcp() ? ECONNRESET : 0);
  SendAll(idle.client.get(), "z");
  EXPECT_EQ(Receive(idle.server.get(), 1), "z");
}

TEST_P(RelayTest, CutsAllConnectionsAndTakesNewOnes) {
  for (const Relay::Cut how : {Relay::Cut::kClose, Relay::Cut::kReset}) {
    const Pair first = Connect();
    const Pair second = Connect();
    // Both are known to the relay once something has passed.
    for (const Pair* pair : {&first, &second}) {
      SendAll(pair->client.get(), "a");
      EXPECT_EQ(Receive(pair->server.get(), 1), "a");
    }
    relay_->CutAll(how);
    EXPECT_EQ(relay_->counts().open, 0u);
    const int expected = how == Relay::Cut::kReset && tcp() ? ECONNRESET : 0;
    for (const Pair* pair : {&first, &second}) {
      EXPECT_EQ(End(pair->client.get()), expected);
      EXPECT_EQ(End(pair->server.get()), expected);
    }
  }
  const Pair later = Connect();
  SendAll(later.client.get(), "b");
  EXPECT_EQ(Receive(later.server.get(), 1), "b");
}

TEST_P(RelayTest, RefusesNewConnectionsOnly) {
  const Pair pair = Connect();
  relay_->Set({.refuse = true});
  const UniqueFd refused = Dial();
  EXPECT_EQ(End(refused.get()), 0);
  EXPECT_TRUE(WaitFor([&] { return relay_->counts().refused == 1; }));
  SendAll(pair.client.get(), "a");
  EXPECT_EQ(Receive(pair.server.get(), 1), "a");
  relay_->Set({});
  const Pair again = Connect();
  SendAll(again.client.get(), "b");
  EXPECT_EQ(Receive(again.server.get(), 1), "b");
}

TEST_P(RelayTest, SaysAtOnceThatThereIsNoServer) {
  listener_.Reset();
  if (!tcp()) ::unlink(server_address_.c_str() + 5);
  const UniqueFd client = Dial();
  EXPECT_EQ(End(client.get()), tcp() ? ECONNRESET : 0);
}

TEST_P(RelayTest, SendsRecordedConnectionsAgain) {
  const Pair before = Connect();
  SendAll(before.client.get(), "before");
  EXPECT_EQ(Receive(before.server.get(), 6), "before");
  relay_->Record();
  const std::string bytes = SeededString(5, 200'000);
  const Pair first = Connect();
  SendAll(first.client.get(), bytes);
  EXPECT_TRUE(Receive(first.server.get(), bytes.size()) == bytes);
  const Pair second = Connect();
  SendAll(second.client.get(), "second");
  EXPECT_EQ(Receive(second.server.get(), 6), "second");
  EXPECT_EQ(relay_->counts().recorded, 2u);

  ASSERT_EQ(relay_->Replay(), 2u);
  const UniqueFd again = AcceptOne();
  const UniqueFd again_second = AcceptOne();
  EXPECT_TRUE(Receive(again.get(), bytes.size()) == bytes);
  EXPECT_EQ(Receive(again_second.get(), 6), "second");
  EXPECT_EQ(relay_->counts().replayed, 0u) << "not answered";
  // An answer, and an end without one.
  SendAll(again.get(), "answer");
  ASSERT_EQ(::shutdown(again_second.get(), SHUT_RDWR), 0);
  EXPECT_TRUE(WaitFor([&] { return relay_->counts().replayed == 2; }));
  // The client hears nothing of it.
  SendAll(first.server.get(), "own");
  EXPECT_EQ(Receive(first.client.get(), 3), "own");
}

INSTANTIATE_TEST_SUITE_P(Over, RelayTest, ::testing::Values("unix", "tcp"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace muster::testing
