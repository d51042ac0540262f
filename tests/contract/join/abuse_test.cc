// What strangers do to the join port, and that others join all the same.
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "common/crypto/csr.h"
#include "common/crypto/join_frame.h"
#include "common/crypto/join_token.h"
#include "muster/v1/join.pb.h"
#include "tests/contract/join/join_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class JoinAbuse : public JoinTest {
 protected:
  // The reply to these bytes, sent after the handshake.
  v1::JoinReply ReplyTo(std::string_view bytes) {
    RawClient client(server_->port());
    const absl::Status shaken = client.Handshake(kJoinAlpn);
    EXPECT_TRUE(shaken.ok()) << shaken;
    // The server may have answered before it took everything.
    (void)client.Send(bytes);
    const absl::StatusOr<std::string> answer = client.ReadToEnd();
    EXPECT_TRUE(answer.ok()) << answer.status();
    v1::JoinReply reply;
    if (!answer.ok()) return reply;
    const auto message = UnframeJoinMessage(*answer, kMaxJoinReplyBytes);
    EXPECT_TRUE(message.ok() && *message && reply.ParseFromString(std::string(**message)));
    return reply;
  }
  void ExpectBad(std::string_view bytes, const std::string& part) {
    const v1::JoinReply reply = ReplyTo(bytes);
    EXPECT_EQ(reply.refused().cause(), v1::JoinRefused::BAD_REQUEST);
    EXPECT_THAT(reply.refused().message(), HasSubstr(part));
  }
  void ExpectOthersCanJoin() {
    const absl::StatusOr<Credentials> joined = TryJoin(Options(Token()));
    EXPECT_TRUE(joined.ok()) << joined.status();
  }
};

TEST_F(JoinAbuse, TooLongRequestsAreRefusedAtTheirSize) {
  ExpectBad(std::string("\0\0\x40\x01", 4), "a message of 16385 bytes");
  ExpectBad(std::string("\xff\xff\xff\xff", 4), "a message of 4294967295 bytes");
  ExpectBad(FrameJoinMessage(std::string(kMaxJoinRequestBytes * 8, 'x')), "a message of 131072");
  ExpectBad(std::string(4, '\0'), "a message of 0 bytes");
  ExpectOthersCanJoin();
}

TEST_F(JoinAbuse, TheLongestRequestIsRead) {
  // Fields that nobody knows, and nothing else.
  const v1::JoinReply reply = ReplyTo(FrameJoinMessage(std::string(kMaxJoinRequestBytes, 'x')));
  EXPECT_EQ(reply.refused().cause(), v1::JoinRefused::VERSION);
}

TEST_F(JoinAbuse, GarbageInsideTlsIsRefused) {
  ExpectBad(FrameJoinMessage("hello"), "not readable");
  ExpectBad("GET / HTTP/1.1\r\nHost: head\r\n\r\n", "a message of 1195725856 bytes");
  ExpectBad(FrameJoinMessage("a") + "b", "bytes after");
  ExpectOthersCanJoin();
}

TEST_F(JoinAbuse, OtherProtocolsAreHungUpOn) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("SSH-2.0-x\r\n"),
        std::string(5000, '\0'), std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")}) {
    RawClient client(server_->port());
    client.SendRaw(bytes);
    client.ReadRaw();
  }
  EXPECT_TRUE(AwaitAudit("TLS handshake"));
  ExpectOthersCanJoin();
}

TEST_F(JoinAbuse, OtherApplicationProtocolsAreRefused) {
  RawClient client(server_->port());
  EXPECT_FALSE(client.Handshake("h2").ok());
  ExpectOthersCanJoin();
}

TEST_F(JoinAbuse, OlderTlsIsRefused) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  ASSERT_EQ(SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION), 1);
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(BIO_new_ssl_connect(context.get()),
                                                          &BIO_free_all);
  BIO_set_conn_hostname(bio.get(), Options("").address.c_str());
  EXPECT_LE(BIO_do_handshake(bio.get()), 0);
  EXPECT_TRUE(AwaitAudit("unsupported protocol"));
}

TEST_F(JoinAbuse, AnOldProtocolIsRefusedWithBothVersions) {
  v1::JoinRequest request;
  request.set_token_id("aaaaaaaa");
  const v1::JoinReply reply =
      ReplyTo(FrameJoinMessage(request.SerializeAsString() + "\x08" + std::string(1, '\0')));
  EXPECT_EQ(reply.refused().cause(), v1::JoinRefused::VERSION);
  EXPECT_THAT(reply.refused().message(), HasSubstr("speaks version 0"));
  EXPECT_THAT(AuditText(), HasSubstr("VERSION"));
}

TEST_F(JoinAbuse, ARequestOfAnotherConnectionIsWorthNothing) {
  const std::string text = Token();
  const JoinToken token = *ParseToken(text);
  RawClient first(server_->port());
  ASSERT_TRUE(first.Handshake(kJoinAlpn).ok());
  v1::JoinRequest request;
  request.set_protocol(kJoinProtocol);
  request.set_token_id(token.id);
  request.set_name("node-1");
  request.set_csr(MakeCsr(PrivateKey::Generate()));
  request.set_proof(JoinProof(TokenKey(token), first.Exporter(), request.csr()));
  const std::string frame = FrameJoinMessage(request.SerializeAsString());
  EXPECT_EQ(ReplyTo(frame).refused().cause(), v1::JoinRefused::UNKNOWN_TOKEN);
  EXPECT_EQ(UsesLeft(text), 1);
  // Where it belongs it is good.
  ASSERT_TRUE(first.Send(frame).ok());
  EXPECT_TRUE(first.ReadToEnd().ok());
  EXPECT_EQ(UsesLeft(text), 0);
}

TEST_F(JoinAbuse, CutShortAnywhereIsOnlyAnEnd) {
  StartServer({.per_minute = 1000});
  v1::JoinRequest request;
  request.set_protocol(kJoinProtocol);
  request.set_csr(MakeCsr(PrivateKey::Generate()));
  const std::string frame = FrameJoinMessage(request.SerializeAsString());
  for (size_t size = 0; size < frame.size(); size += 7) {
    RawClient client(server_->port());
    ASSERT_TRUE(client.Handshake(kJoinAlpn).ok());
    ASSERT_TRUE(client.Send(std::string_view(frame).substr(0, size)).ok());
    client.Close();
  }
  EXPECT_TRUE(AwaitAudit("the other end closed the connection"));
  ExpectOthersCanJoin();
}

TEST_F(JoinAbuse, SlowClientsAreHungUpOn) {
  StartServer({.in_all = std::chrono::milliseconds(200)});
  RawClient silent(server_->port());
  EXPECT_EQ(silent.ReadRaw(), "");
  EXPECT_TRUE(AwaitAudit("nothing was received in time"));
  RawClient slow(server_->port());
  ASSERT_TRUE(slow.Handshake(kJoinAlpn).ok());
  ASSERT_TRUE(slow.Send(std::string("\0\0", 2)).ok());
  EXPECT_FALSE(slow.ReadToEnd().ok());
  EXPECT_TRUE(AwaitAudit("it took longer than allowed"));
}

TEST_F(JoinAbuse, IdleSocketsHinderNobody) {
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 100; ++i) {
    idle.push_back(
        std::make_unique<RawClient>(server_->port(), i % 2 == 0 ? "127.0.0.2" : "127.0.0.3"));
  }
  ExpectOthersCanJoin();
  EXPECT_EQ(server_->accepted(), 101u);
}

TEST_F(JoinAbuse, MoreIdleSocketsThanPlacesHinderNobody) {
  StartServer({.connections = 20, .per_minute = 1000});
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 100; ++i) idle.push_back(std::make_unique<RawClient>(server_->port()));
  ExpectOthersCanJoin();
  EXPECT_EQ(idle.front()->ReadRaw(), "");
  EXPECT_TRUE(AwaitAudit("and others wait"));
}

TEST_F(JoinAbuse, HalfHandshakesOfOneAddressHinderNobody) {
  std::vector<std::unique_ptr<RawClient>> half;
  for (int i = 0; i < 40; ++i) {
    half.push_back(std::make_unique<RawClient>(server_->port(), "127.0.0.2"));
    // The beginning of a TLS record.
    half.back()->SendRaw("\x16\x03\x01");
  }
  ExpectOthersCanJoin();
}

TEST_F(JoinAbuse, TooManyAMinuteAreHungUpOnAndToldOnce) {
  StartServer({.per_minute = 3});
  for (int i = 0; i < 3; ++i) ExpectBad(FrameJoinMessage("x"), "");
  for (int i = 0; i < 5; ++i) {
    RawClient client(server_->port());
    EXPECT_EQ(client.ReadRaw(), "");
  }
  ExpectRefused(Options(Token()), absl::StatusCode::kUnavailable,
                "60 joins a minute from one address");
  const std::string audit = AuditText();
  const size_t first = audit.find("more than 3 connections a minute");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(audit.find("more than 3 connections a minute", first + 1), std::string::npos);
}

TEST_F(JoinAbuse, HearsAgainAfterDescriptorsRanOut) {
  // The first use of the logger's type: a sanitizer looks at it through a pipe, for which there is
  // no descriptor later.
  spdlog::debug("descriptors will run out");
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // The peer connects while there is room; taking the connection then fails in this process.
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(server_->port());
  std::vector<UniqueFd> taken;
  const rlimit small{static_cast<rlim_t>(client.get()) + 8, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.emplace_back(fd);
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  timeval limit{20, 0};
  ::setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char byte;
  EXPECT_EQ(::recv(client.get(), &byte, 1, 0), 0) << "hung up on, not left waiting";
  taken.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ExpectOthersCanJoin();
}

TEST_F(JoinAbuse, EndsWithConnectionsOpen) {
  RawClient idle(server_->port());
  RawClient shaken(server_->port());
  ASSERT_TRUE(shaken.Handshake(kJoinAlpn).ok());
  server_.reset();
  EXPECT_EQ(idle.ReadRaw(), "");
  EXPECT_FALSE(shaken.ReadToEnd().ok());
}

}  // namespace
}  // namespace muster
