// Both ends of a bandwidth test, over the loopback interface.
#include "agent/checks/bandwidth_test.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <optional>

#include "common/io/event_loop.h"
#include "common/io/unique_fd.h"

namespace muster::testing {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

class BandwidthTestTest : public ::testing::Test {
 protected:
  absl::StatusOr<uint32_t> Listen(const std::string& token) {
    v1::NetworkListen listen;
    listen.set_token(token);
    std::optional<absl::StatusOr<uint32_t>> port;
    tester_.Listen(listen, seconds(20), [&](absl::StatusOr<uint32_t> heard) {
      port = std::move(heard);
      loop_.Stop();
    });
    loop_.Run();
    return *port;
  }
  absl::StatusOr<v1::NetworkRate> Connect(uint32_t port, const std::string& token,
                                          const std::vector<std::string>& addresses) {
    v1::NetworkConnect connect;
    connect.set_token(token);
    connect.set_port(port);
    for (const std::string& address : addresses) connect.add_addresses(address);
    connect.mutable_duration()->set_nanos(50'000'000);
    std::optional<absl::StatusOr<v1::NetworkRate>> rate;
    tester_.Connect(connect, seconds(20), [&](absl::StatusOr<v1::NetworkRate> measured) {
      rate = std::move(measured);
      loop_.Stop();
    });
    loop_.Run();
    return *rate;
  }

  EventLoop loop_;
  BandwidthTest tester_{loop_};
  const std::string token_ = std::string(32, 't');
};

TEST_F(BandwidthTestTest, MeasuresARate) {
  const absl::StatusOr<uint32_t> port = Listen(token_);
  ASSERT_TRUE(port.ok()) << port.status();
  const absl::StatusOr<v1::NetworkRate> rate = Connect(*port, token_, {"127.0.0.1"});
  ASSERT_TRUE(rate.ok()) << rate.status();
  EXPECT_EQ(rate->address(), "127.0.0.1");
  EXPECT_GT(rate->bytes(), 0u);
  EXPECT_GT(rate->duration().nanos(), 0);
}

TEST_F(BandwidthTestTest, AStrangerDoesNotTakeThePlaceOfTheOtherEnd) {
  const absl::StatusOr<uint32_t> port = Listen(token_);
  ASSERT_TRUE(port.ok());
  const UniqueFd stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(*port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(stranger.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string wrong(32, 'w');
  ASSERT_EQ(::send(stranger.get(), wrong.data(), wrong.size(), MSG_NOSIGNAL), 32);
  EXPECT_TRUE(Connect(*port, token_, {"127.0.0.1"}).ok());
}

TEST_F(BandwidthTestTest, TriesTheNextAddressAndTellsAboutAll) {
  const absl::StatusOr<uint32_t> port = Listen(token_);
  ASSERT_TRUE(port.ok());
  const absl::StatusOr<v1::NetworkRate> rate =
      Connect(*port, token_, {"not-an-address", "127.0.0.1"});
  ASSERT_TRUE(rate.ok()) << rate.status();
  EXPECT_EQ(rate->address(), "127.0.0.1");
  const absl::StatusOr<v1::NetworkRate> none = Connect(*port, token_, {"not-an-address"});
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("not-an-address: not a numeric"));
}

TEST_F(BandwidthTestTest, TokensAndPortsMustBeSome) {
  EXPECT_EQ(Listen("short").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Connect(0, token_, {"127.0.0.1"}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(BandwidthTestTest, TooManyAtOnceAreRefusedAndTheEndWaitsForNone) {
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Listen(token_).ok());
  EXPECT_EQ(Listen(token_).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace muster::testing
