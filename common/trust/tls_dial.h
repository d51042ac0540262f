// A client's TCP connection with TLS 1.3 on it, for what is spoken without gRPC. Blocks the calling
// thread, never longer than its limit in all (but for the resolver, which has its own).
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/crypto/tls_session.h"
#include "common/io/unique_fd.h"

namespace muster {

struct HostPort {
  std::string host;
  std::string port;
};
// host:port or [v6]:port; INVALID_ARGUMENT else.
absl::StatusOr<HostPort> SplitAddress(const std::string& address);

class TlsDial {
 public:
  // INVALID_ARGUMENT: no address. UNAVAILABLE, DEADLINE_EXCEEDED: nobody is there. `doing` is for
  // texts, as "join at".
  static absl::StatusOr<TlsDial> Connect(std::string address, std::string doing,
                                         std::chrono::milliseconds limit);

  // The verifier's error, or those of TlsSession. Once.
  absl::Status Handshake(const TlsContext& context, TlsSession::Verifier verifier);
  // After the handshake.
  absl::StatusOr<TlsProgress> Write(std::string_view bytes);
  // Appends what comes, at most `max_bytes`. kDone or kEnd.
  absl::StatusOr<TlsProgress> Read(size_t max_bytes, std::string& out);
  TlsSession& session() { return *session_; }
  const std::string& address() const { return address_; }

 private:
  TlsDial(std::string address, std::string doing, std::chrono::milliseconds limit);
  absl::StatusOr<UniqueFd> ConnectToAny() const;
  absl::Status Late() const;
  template <typename Step>
  absl::StatusOr<TlsProgress> Drive(Step step);

  std::string address_;
  std::string doing_;
  std::chrono::milliseconds limit_;
  TimePoint deadline_;
  UniqueFd fd_;
  std::optional<TlsSession> session_;
};

}  // namespace muster
