// A server that is not of the token's cluster gets nothing of the token.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "common/crypto/issuer.h"
#include "common/crypto/join_token.h"
#include "tests/contract/join/join_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// Serves TLS with any chain to one client and keeps everything that the client sent inside.
class Impostor {
 public:
  Impostor(std::vector<Certificate> chain, const PrivateKey& key, const std::string& protocol)
      : listener_(*ListenTcp("127.0.0.1", 0)),
        context_(*TlsContext::ForServer(std::move(chain), key, protocol)),
        thread_([this] { Serve(); }) {}
  ~Impostor() { Wait(); }

  std::string address() const {
    sockaddr_in address = {};
    socklen_t size = sizeof address;
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    return fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  }
  // After the client has gone.
  void Wait() {
    if (thread_.joinable()) thread_.join();
  }
  bool shaken() const { return shaken_; }
  const std::string& received() const { return received_; }

 private:
  void Serve() {
    pollfd waiting = {listener_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 20'000) != 1) return;
    const UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    auto session = TlsSession::Server(context_, fd.get());
    while (true) {
      auto progress = shaken_ ? session->Read(4096, received_) : session->Handshake();
      if (!progress.ok() || *progress == TlsProgress::kEnd) return;
      if (*progress == TlsProgress::kDone) {
        shaken_ = true;
        continue;
      }
      pollfd ready = {fd.get(), POLLIN, 0};
      if (::poll(&ready, 1, 20'000) != 1) return;
    }
  }

  UniqueFd listener_;
  TlsContext context_;
  bool shaken_ = false;
  std::string received_;
  std::thread thread_;
};

class PinTest : public JoinTest {
 protected:
  void SetUp() override {
    JoinTest::SetUp();
    absl::StatusOr<Trust> other = InitTrust(folder_.File("other"), {}, now_);
    ASSERT_TRUE(other.ok()) << other.status();
    other_ = std::make_unique<Trust>(*std::move(other));
  }
  void ExpectNothingSent(Impostor& impostor, absl::StatusCode code, const std::string& part) {
    JoinOptions options = Options(Token());
    options.address = impostor.address();
    ExpectRefused(options, code, part);
    impostor.Wait();
    EXPECT_EQ(impostor.received(), "");
  }

  std::unique_ptr<Trust> other_;
};

TEST_F(PinTest, NothingIsSentToAnotherCluster) {
  Impostor impostor(other_->ServerChain(), other_->coordinator_key, kJoinAlpn);
  ExpectNothingSent(impostor, absl::StatusCode::kPermissionDenied,
                    "is not of the cluster that the token names");
  EXPECT_FALSE(impostor.shaken());
}

TEST_F(PinTest, NothingIsSentToWhoOnlyShowsTheRightCa) {
  Impostor impostor({other_->coordinator, other_->ca(), trust_->ca()}, other_->coordinator_key,
                    kJoinAlpn);
  ExpectNothingSent(impostor, absl::StatusCode::kPermissionDenied,
                    "is not of the cluster that the token names");
  EXPECT_FALSE(impostor.shaken());
}

TEST_F(PinTest, NothingIsSentToAMemberOfTheCluster) {
  const PrivateKey key = PrivateKey::Generate();
  const auto certificate = Issue(trust_->ca(), trust_->ca_key, key.public_key(),
                                 {.identity = {trust_->cluster_id, IdentityKind::kAgent, "node-9"},
                                  .client = true,
                                  .server = true,
                                  .not_before = now_,
                                  .not_after = now_ + std::chrono::hours(1)});
  ASSERT_TRUE(certificate.ok());
  Impostor impostor({*certificate, trust_->ca()}, key, kJoinAlpn);
  ExpectNothingSent(impostor, absl::StatusCode::kPermissionDenied, "it is of its agent");
}

TEST_F(PinTest, NothingIsSentToAnotherPortOfTheCoordinator) {
  Impostor impostor(trust_->ServerChain(), trust_->coordinator_key, "h2");
  ExpectNothingSent(impostor, absl::StatusCode::kUnavailable, "is no join port");
}

TEST_F(PinTest, OfATokenOnlyItsIdAndAProofAreSent) {
  Impostor impostor(trust_->ServerChain(), trust_->coordinator_key, kJoinAlpn);
  const std::string token = Token();
  JoinOptions options = Options(token);
  options.address = impostor.address();
  options.limit = std::chrono::milliseconds(300);
  ExpectRefused(options, absl::StatusCode::kDeadlineExceeded, "no answer within 0.3 s");
  impostor.Wait();
  EXPECT_THAT(impostor.received(), HasSubstr(ParseToken(token)->id));
  EXPECT_EQ(impostor.received().find(ParseToken(token)->secret), std::string::npos);
  EXPECT_EQ(impostor.received().find(token.substr(13, 32)), std::string::npos);
}

}  // namespace
}  // namespace muster
