// TLS 1.3 on a socket that does not block: the caller polls, the session says what it waits for.
// Servers ask for no certificate of clients; no session tickets, no other version of TLS; both ends
// must name the same application protocol (ALPN). One thread at a time. Never raises SIGPIPE.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/crypto/certificate.h"
#include "common/crypto/private_key.h"

struct ssl_ctx_st;
struct x509_store_ctx_st;

namespace muster {

// Settings shared by sessions; a value that is cheap to copy.
class TlsContext {
 public:
  // `chain` begins with the server's own certificate and ends with its CA.
  static absl::StatusOr<TlsContext> ForServer(const std::vector<Certificate>& chain,
                                              const PrivateKey& key, std::string_view protocol);
  static absl::StatusOr<TlsContext> ForClient(std::string_view protocol);
  // A client that has a certificate to show.
  static absl::StatusOr<TlsContext> ForMember(const Certificate& certificate, const PrivateKey& key,
                                              std::string_view protocol);
  ssl_ctx_st* native() const { return context_.get(); }

 private:
  explicit TlsContext(std::shared_ptr<ssl_ctx_st> context) : context_(std::move(context)) {}
  std::shared_ptr<ssl_ctx_st> context_;
};

// What the socket must become before it goes on; kEnd: the peer has ended the session in order.
enum class TlsProgress { kDone, kWantsRead, kWantsWrite, kEnd };

class TlsSession {
 public:
  // Judges the chain that the server presented, its own certificate first.
  using Verifier = std::function<absl::Status(const std::vector<Certificate>&)>;

  // `fd` is borrowed and must outlive the session.
  static absl::StatusOr<TlsSession> Server(const TlsContext& context, int fd);
  // Nothing of the application is sent before `verifier` has said OK.
  static absl::StatusOr<TlsSession> Client(const TlsContext& context, int fd, Verifier verifier);

  // The verifier's status when it refused; UNAVAILABLE: the peer closed or broke the connection;
  // INVALID_ARGUMENT: what the peer sent is no TLS 1.3 or not acceptable.
  absl::StatusOr<TlsProgress> Handshake();
  // Appends at most `max_bytes` to `out`. kDone: something came.
  absl::StatusOr<TlsProgress> Read(size_t max_bytes, std::string& out);
  // Removes from `bytes` what was taken. kDone: all of it.
  absl::StatusOr<TlsProgress> Write(std::string_view& bytes);
  // Tells the peer that no more comes, as far as the socket takes it.
  void SendEnd();
  // 32 bytes that only the two ends of this connection know. After the handshake.
  std::string Exporter(std::string_view label) const;
  // What both ends agreed on; empty: nothing.
  std::string Protocol() const;

 private:
  struct State;
  explicit TlsSession(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static absl::StatusOr<TlsSession> Make(const TlsContext& context, int fd, Verifier verifier);
  absl::StatusOr<TlsProgress> Progress(int result, std::string_view doing);
  static int Verify(x509_store_ctx_st* chain, void* unused);
  friend class TlsContext;

  std::shared_ptr<State> state_;
};

}  // namespace muster
