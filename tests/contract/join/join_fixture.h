// A cluster with its join port on the loopback interface, and ways to speak to it, right and wrong.
#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "common/base/annotate.h"
#include "common/crypto/tls_session.h"
#include "common/io/unique_fd.h"
#include "common/trust/join_client.h"
#include "coordinator/trust/join_server.h"
#include "coordinator/trust/join_service.h"
#include "coordinator/trust/token.h"
#include "tests/testing/temp_folder.h"

namespace muster {

// Wall time that a test sets; thread-safe.
class SetClock final : public Clock {
 public:
  explicit SetClock(WallTime now) : now_(now) {}
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  WallTime WallNow() const override { return now_; }
  void Set(WallTime now) { now_ = now; }

 private:
  std::atomic<WallTime> now_;
};

// A client that does what it is told. Blocks; everything ends after 20 s.
class RawClient {
 public:
  // Connects to 127.0.0.1, from `source`.
  explicit RawClient(uint16_t port, const std::string& source = "127.0.0.1");

  // Without TLS.
  bool SendRaw(std::string_view bytes);
  // As TCP's urgent data.
  bool SendUrgent(char byte);
  // Waits until the server has closed; returns what came.
  std::string ReadRaw();
  // With TLS, trusting anybody.
  absl::Status Handshake(std::string_view protocol);
  absl::Status Send(std::string_view bytes);
  absl::StatusOr<std::string> ReadToEnd();
  std::string Exporter() const;
  void Close() { fd_.Reset(); }

 private:
  template <typename Step>
  absl::StatusOr<TlsProgress> Drive(Step step);
  bool Await(short events);

  UniqueFd fd_;
  std::optional<TlsSession> session_;
};

class JoinTest : public testing::Test {
 protected:
  void SetUp() override;
  void StartServer(const JoinLimits& limits = {});
  // The text of a new token.
  std::string Token(const TokenWish& wish = {});
  JoinOptions Options(const std::string& token, const std::string& name = "node-1");
  absl::StatusOr<Credentials> TryJoin(const JoinOptions& options) { return Join(options, clock_); }
  // Expects that joining fails like this, with this in the text.
  void ExpectRefused(const JoinOptions& options, absl::StatusCode code, const std::string& part);
  int64_t UsesLeft(const std::string& token);
  std::string AuditText();
  // Waits until the audit log has this; false after 20 s.
  bool AwaitAudit(const std::string& part);

  const WallTime now_{std::chrono::seconds(1'800'000'000)};
  SetClock clock_{now_};
  // Of the coordinator, when it differs.
  SetClock server_clock_{now_};
  TempFolder folder_;
  std::unique_ptr<Trust> trust_;
  std::unique_ptr<LiveTrust> live_;
  std::unique_ptr<TrustStore> store_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<JoinService> service_;
  std::unique_ptr<JoinServer> server_;
};

}  // namespace muster
