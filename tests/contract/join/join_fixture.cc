#include "tests/contract/join/join_fixture.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/socket.h>

#include "common/crypto/join_token.h"

namespace muster {
namespace {

constexpr int kLimitMilliseconds = 20'000;

sockaddr_in Loopback(const std::string& address, uint16_t port) {
  sockaddr_in found = {};
  found.sin_family = AF_INET;
  found.sin_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET, address.c_str(), &found.sin_addr), 1);
  return found;
}

}  // namespace

RawClient::RawClient(uint16_t port, const std::string& source)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_in from = Loopback(source, 0);
  const sockaddr_in to = Loopback("127.0.0.1", port);
  EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from), 0);
  EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
}

bool RawClient::Await(short events) {
  pollfd waiting = {fd_.get(), events, 0};
  return ::poll(&waiting, 1, kLimitMilliseconds) == 1;
}

bool RawClient::SendUrgent(char byte) {
  return ::send(fd_.get(), &byte, 1, MSG_NOSIGNAL | MSG_OOB) == 1;
}

bool RawClient::SendRaw(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

std::string RawClient::ReadRaw() {
  std::string bytes;
  char chunk[4096];
  while (true) {
    if (!Await(POLLIN)) {
      ADD_FAILURE() << "the server did not close";
      return bytes;
    }
    const ssize_t count = ::recv(fd_.get(), chunk, sizeof chunk, 0);
    if (count <= 0) return bytes;
    bytes.append(chunk, static_cast<size_t>(count));
  }
}

template <typename Step>
absl::StatusOr<TlsProgress> RawClient::Drive(Step step) {
  while (true) {
    const absl::StatusOr<TlsProgress> progress = step();
    if (!progress.ok() || *progress == TlsProgress::kDone || *progress == TlsProgress::kEnd) {
      return progress;
    }
    if (!Await(*progress == TlsProgress::kWantsWrite ? POLLOUT : POLLIN)) {
      return absl::DeadlineExceededError("nothing happens");
    }
  }
}

absl::Status RawClient::Handshake(std::string_view protocol) {
  const auto context = TlsContext::ForClient(protocol);
  if (!context.ok()) return context.status();
  auto session =
      TlsSession::Client(*context, fd_.get(), [](const auto&) { return absl::OkStatus(); });
  if (!session.ok()) return session.status();
  session_ = *std::move(session);
  return Drive([&] { return session_->Handshake(); }).status();
}

absl::Status RawClient::Send(std::string_view bytes) {
  return Drive([&] { return session_->Write(bytes); }).status();
}

absl::StatusOr<std::string> RawClient::ReadToEnd() {
  std::string bytes;
  while (true) {
    const auto progress = Drive([&] { return session_->Read(4096, bytes); });
    if (!progress.ok()) return progress.status();
    if (*progress == TlsProgress::kEnd) return bytes;
  }
}

std::string RawClient::Exporter() const { return session_->Exporter(kJoinExporterLabel); }

void JoinTest::SetUp() {
  const std::string directory = folder_.File("trust");
  absl::StatusOr<Trust> trust = InitTrust(directory, {}, now_);
  ASSERT_TRUE(trust.ok()) << trust.status();
  trust_ = std::make_unique<Trust>(*std::move(trust));
  live_ = std::make_unique<LiveTrust>(*trust_);
  auto store = TrustStore::Open(TrustDatabasePath(directory));
  ASSERT_TRUE(store.ok()) << store.status();
  store_ = *std::move(store);
  auto audit = AuditLog::Open(folder_.File("audit.jsonl"));
  ASSERT_TRUE(audit.ok()) << audit.status();
  audit_ = *std::move(audit);
  service_ = std::make_unique<JoinService>(
      *live_, *store_, *audit_, server_clock_,
      JoinPolicy{.coordinators = {"head:7443", "[2001:db8::1]:7443"}});
  StartServer();
}

void JoinTest::StartServer(const JoinLimits& limits) {
  server_.reset();
  absl::StatusOr<UniqueFd> listener = ListenTcp("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok()) << listener.status();
  auto server = JoinServer::Start(*std::move(listener), *live_, *service_, limits);
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
}

std::string JoinTest::Token(const TokenWish& wish) {
  const absl::StatusOr<NewToken> token = CreateToken(wish, trust_->ca().SpkiSha256(), now_);
  EXPECT_TRUE(token.ok()) << token.status();
  if (!token.ok()) return {};
  const absl::Status added = store_->AddToken(token->stored);
  EXPECT_TRUE(added.ok()) << added;
  return token->text;
}

JoinOptions JoinTest::Options(const std::string& token, const std::string& name) {
  return {.address = fmt::format("127.0.0.1:{}", server_->port()),
          .token = token,
          .name = name,
          .machine_id = "machine",
          .boot_id = "boot",
          .version = "test",
          .key = PrivateKey::Generate()};
}

void JoinTest::ExpectRefused(const JoinOptions& options, absl::StatusCode code,
                             const std::string& part) {
  const absl::StatusOr<Credentials> joined = TryJoin(options);
  EXPECT_EQ(joined.status().code(), code) << joined.status();
  EXPECT_THAT(std::string(MessageOf(joined.status())), testing::HasSubstr(part));
}

int64_t JoinTest::UsesLeft(const std::string& token) {
  const auto stored = store_->FindToken(ParseToken(token)->id);
  EXPECT_TRUE(stored.ok() && *stored);
  return stored.ok() && *stored ? (*stored)->uses_left : -1;
}

std::string JoinTest::AuditText() {
  std::ifstream in(folder_.File("audit.jsonl"), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool JoinTest::AwaitAudit(const std::string& part) {
  const UniqueFd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  EXPECT_GE(::inotify_add_watch(watch.get(), folder_.File("audit.jsonl").c_str(), IN_MODIFY), 0);
  while (AuditText().find(part) == std::string::npos) {
    pollfd waiting = {watch.get(), POLLIN, 0};
    if (::poll(&waiting, 1, kLimitMilliseconds) != 1) return false;
    char events[4096];
    while (::read(watch.get(), events, sizeof events) > 0) continue;
  }
  return true;
}

}  // namespace muster
