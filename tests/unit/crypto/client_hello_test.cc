#include "common/crypto/client_hello.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <random>
#include <string>

#include "common/crypto/tls_session.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

// What OpenSSL sends first.
std::string RealHello(std::string_view protocol) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd client(ends[0]);
  const UniqueFd server(ends[1]);
  const absl::StatusOr<TlsContext> context = TlsContext::ForClient(protocol);
  EXPECT_TRUE(context.ok()) << context.status();
  absl::StatusOr<TlsSession> session =
      TlsSession::Client(*context, client.get(), [](const auto&) { return absl::OkStatus(); });
  EXPECT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE(session->Handshake().ok());
  std::array<char, 4096> bytes;
  const ssize_t count = ::recv(server.get(), bytes.data(), bytes.size(), 0);
  EXPECT_GT(count, 100);
  return {bytes.data(), static_cast<size_t>(count)};
}

TEST(ClientHello, TellsTheProtocolThatOpenSslOffers) {
  const std::string bytes = RealHello("muster-join/1");
  const std::optional<ClientHello> hello = ParseClientHello(bytes);
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->wanted_bytes, 0u);
  EXPECT_THAT(hello->protocols, ElementsAre("muster-join/1"));
  EXPECT_TRUE(hello->Offers("muster-join/1"));
  EXPECT_FALSE(hello->Offers("h2"));
}

TEST(ClientHello, WantsTheWholeMessageAndNoMore) {
  const std::string bytes = RealHello("h2");
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::optional<ClientHello> hello =
        ParseClientHello(std::string_view(bytes).substr(0, size));
    ASSERT_TRUE(hello.has_value()) << size;
    EXPECT_EQ(hello->wanted_bytes,
              size < kTlsRecordHeaderBytes ? kTlsRecordHeaderBytes : bytes.size());
  }
  const std::string longer = bytes + "next record";
  const std::optional<ClientHello> more = ParseClientHello(longer);
  ASSERT_TRUE(more.has_value());
  EXPECT_TRUE(more->Offers("h2"));
}

TEST(ClientHello, OtherProtocolsAreKnownFromTheirFirstBytes) {
  for (const std::string_view bytes : {"G", "GET / HTTP/1.1", "PRI * HTTP/2.0", "\x80", "SSH-2.0",
                                       "\x16\x02", "\x16\x03\x01\x40\x01", "\x17\x03\x03"}) {
    EXPECT_FALSE(ParseClientHello(bytes).has_value()) << bytes;
  }
}

TEST(ClientHello, IsCutAndBentWithoutHarm) {
  const std::string bytes = RealHello("h2");
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string bent = bytes;
    for (int change = 0; change < 3; ++change) {
      bent[random() % bent.size()] = static_cast<char>(random());
    }
    const std::optional<ClientHello> hello = ParseClientHello(bent);
    if (!hello.has_value()) continue;
    for (const std::string_view protocol : hello->protocols) {
      EXPECT_GE(protocol.data(), bent.data());
      EXPECT_LE(protocol.data() + protocol.size(), bent.data() + bent.size());
    }
  }
}

}  // namespace
}  // namespace muster
