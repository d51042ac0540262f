#include "common/crypto/tls_session.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "common/base/annotate.h"
#include "common/crypto/openssl.h"

namespace muster {
namespace {

constexpr size_t kExporterBytes = 32;

// A name as ALPN writes it: its size in one byte, then the name.
std::string AlpnList(std::string_view protocol) {
  return std::string(1, static_cast<char>(protocol.size())).append(protocol);
}

int ChooseProtocol(SSL* /*ssl*/, const unsigned char** chosen, unsigned char* chosen_size,
                   const unsigned char* offered, unsigned int offered_size, void* own) {
  const auto& list = *static_cast<const std::string*>(own);
  const int result =
      SSL_select_next_proto(const_cast<unsigned char**>(chosen), chosen_size, Unsigned(list),
                            static_cast<unsigned int>(list.size()), offered, offered_size);
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// As OpenSSL's own socket writer, but without SIGPIPE.
int SendQuietly(BIO* bio, const char* data, int size) {
  int fd = -1;
  BIO_get_fd(bio, &fd);
  BIO_clear_retry_flags(bio);
  errno = 0;
  const auto sent = static_cast<int>(::send(fd, data, static_cast<size_t>(size), MSG_NOSIGNAL));
  if (sent <= 0 && BIO_sock_should_retry(sent) != 0) BIO_set_retry_write(bio);
  return sent;
}

BIO_METHOD* MakeSocketMethod() {
  const BIO_METHOD* socket = BIO_s_socket();
  BIO_METHOD* method = BIO_meth_new(BIO_TYPE_SOCKET, "socket without SIGPIPE");
  MustHold(method != nullptr && BIO_meth_set_read(method, BIO_meth_get_read(socket)) == 1 &&
               BIO_meth_set_write(method, SendQuietly) == 1 &&
               BIO_meth_set_ctrl(method, BIO_meth_get_ctrl(socket)) == 1 &&
               BIO_meth_set_create(method, BIO_meth_get_create(socket)) == 1 &&
               BIO_meth_set_destroy(method, BIO_meth_get_destroy(socket)) == 1,
           "BIO_meth_new");
  return method;
}

const BIO_METHOD* SocketMethod() {
  static const BIO_METHOD* const method = MakeSocketMethod();
  return method;
}

std::shared_ptr<SSL_CTX> NewContext(const SSL_METHOD* method) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(method), SSL_CTX_free);
  MustHold(context != nullptr &&
               SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
               SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION) == 1,
           "SSL_CTX_new");
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  // The chains of the cluster are two certificates long.
  SSL_CTX_set_max_cert_list(context.get(), 32 << 10);
  return context;
}

}  // namespace

struct TlsSession::State {
  // Kept as long as its sessions: they use the name of the protocol in it.
  TlsContext context;
  std::unique_ptr<SSL, OpensslFree<SSL_free>> ssl;
  Verifier verifier;
  // Why the verifier refused.
  absl::Status refused;
};

absl::StatusOr<TlsContext> TlsContext::ForServer(const std::vector<Certificate>& chain,
                                                 const PrivateKey& key, std::string_view protocol) {
  std::shared_ptr<SSL_CTX> context = NewContext(TLS_server_method());
  bool good = !chain.empty() &&
              SSL_CTX_use_certificate(context.get(), chain.front().native()) == 1 &&
              SSL_CTX_use_PrivateKey(context.get(), key.native()) == 1;
  for (size_t i = 1; i < chain.size() && good; ++i) {
    good = SSL_CTX_add1_chain_cert(context.get(), chain[i].native()) == 1;
  }
  if (!good) {
    return OpensslStatus(absl::StatusCode::kInvalidArgument,
                         "certificate and key cannot serve TLS");
  }
  // Lives as long as the context.
  struct Kept {
    std::shared_ptr<SSL_CTX> context;
    std::string protocols;
  };
  auto kept = std::make_shared<Kept>(Kept{std::move(context), AlpnList(protocol)});
  SSL_CTX_set_alpn_select_cb(kept->context.get(), ChooseProtocol, &kept->protocols);
  return TlsContext(std::shared_ptr<SSL_CTX>(kept, kept->context.get()));
}

absl::StatusOr<TlsContext> TlsContext::ForClient(std::string_view protocol) {
  std::shared_ptr<SSL_CTX> context = NewContext(TLS_client_method());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(context.get(), TlsSession::Verify, nullptr);
  const std::string list = AlpnList(protocol);
  MustHold(SSL_CTX_set_alpn_protos(context.get(), Unsigned(list),
                                   static_cast<unsigned int>(list.size())) == 0,
           "SSL_CTX_set_alpn_protos");
  return TlsContext(std::move(context));
}

absl::StatusOr<TlsContext> TlsContext::ForMember(const Certificate& certificate,
                                                 const PrivateKey& key, std::string_view protocol) {
  absl::StatusOr<TlsContext> context = ForClient(protocol);
  if (!context.ok()) return context;
  if (SSL_CTX_use_certificate(context->native(), certificate.native()) != 1 ||
      SSL_CTX_use_PrivateKey(context->native(), key.native()) != 1) {
    return OpensslStatus(absl::StatusCode::kInvalidArgument,
                         "certificate and key cannot be shown to a server");
  }
  return context;
}

int TlsSession::Verify(X509_STORE_CTX* chain, void* /*unused*/) {
  auto* ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* state = static_cast<State*>(SSL_get_app_data(ssl));
  std::vector<Certificate> presented;
  const STACK_OF(X509)* all = X509_STORE_CTX_get0_untrusted(chain);
  for (int i = 0; i < sk_X509_num(all); ++i) {
    X509* certificate = sk_X509_value(all, i);
    X509_up_ref(certificate);
    presented.emplace_back(std::shared_ptr<X509>(certificate, X509_free));
  }
  state->refused = presented.empty() ? absl::PermissionDeniedError("the server has no certificate")
                                     : state->verifier(presented);
  if (state->refused.ok()) return 1;
  X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

absl::StatusOr<TlsSession> TlsSession::Make(const TlsContext& context, int fd, Verifier verifier) {
  auto state =
      std::make_shared<State>(State{context, nullptr, std::move(verifier), absl::OkStatus()});
  state->ssl.reset(SSL_new(context.native()));
  BIO* bio = BIO_new(SocketMethod());
  if (state->ssl == nullptr || bio == nullptr) {
    BIO_free(bio);
    return OpensslStatus(absl::StatusCode::kResourceExhausted, "no memory for a TLS session");
  }
  BIO_set_fd(bio, fd, BIO_NOCLOSE);
  SSL_set_bio(state->ssl.get(), bio, bio);
  SSL_set_app_data(state->ssl.get(), state.get());
  return TlsSession(std::move(state));
}

absl::StatusOr<TlsSession> TlsSession::Server(const TlsContext& context, int fd) {
  absl::StatusOr<TlsSession> session = Make(context, fd, nullptr);
  if (session.ok()) SSL_set_accept_state(session->state_->ssl.get());
  return session;
}

absl::StatusOr<TlsSession> TlsSession::Client(const TlsContext& context, int fd,
                                              Verifier verifier) {
  absl::StatusOr<TlsSession> session = Make(context, fd, std::move(verifier));
  if (session.ok()) SSL_set_connect_state(session->state_->ssl.get());
  return session;
}

absl::StatusOr<TlsProgress> TlsSession::Progress(int result, std::string_view doing) {
  const int error_number = errno;
  switch (SSL_get_error(state_->ssl.get(), result)) {
    case SSL_ERROR_NONE:
      return TlsProgress::kDone;
    case SSL_ERROR_WANT_READ:
      return TlsProgress::kWantsRead;
    case SSL_ERROR_WANT_WRITE:
      return TlsProgress::kWantsWrite;
    case SSL_ERROR_ZERO_RETURN:
      return TlsProgress::kEnd;
    case SSL_ERROR_SYSCALL:
      ERR_clear_error();
      if (error_number == 0) break;
      return absl::UnavailableError(
          fmt::format("{}: {}", doing, MessageOf(ErrnoStatus(error_number, "the connection"))));
    default:
      if (!state_->refused.ok()) {
        ERR_clear_error();
        return state_->refused;
      }
      if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) break;
      return OpensslStatus(absl::StatusCode::kInvalidArgument, doing);
  }
  ERR_clear_error();
  return absl::UnavailableError(fmt::format("{}: the other end closed the connection", doing));
}

absl::StatusOr<TlsProgress> TlsSession::Handshake() {
  ERR_clear_error();
  errno = 0;
  return Progress(SSL_do_handshake(state_->ssl.get()), "TLS handshake");
}

absl::StatusOr<TlsProgress> TlsSession::Read(size_t max_bytes, std::string& out) {
  ERR_clear_error();
  errno = 0;
  const size_t before = out.size();
  out.resize(before + max_bytes);
  size_t count = 0;
  const int result = SSL_read_ex(state_->ssl.get(), out.data() + before, max_bytes, &count);
  out.resize(before + count);
  return Progress(result, "read");
}

absl::StatusOr<TlsProgress> TlsSession::Write(std::string_view& bytes) {
  while (!bytes.empty()) {
    ERR_clear_error();
    errno = 0;
    size_t count = 0;
    const int result = SSL_write_ex(state_->ssl.get(), bytes.data(), bytes.size(), &count);
    bytes.remove_prefix(count);
    const absl::StatusOr<TlsProgress> progress = Progress(result, "write");
    if (!progress.ok() || *progress != TlsProgress::kDone) return progress;
  }
  return TlsProgress::kDone;
}

void TlsSession::SendEnd() {
  // Whether it arrives does not matter: messages say how long they are.
  SSL_shutdown(state_->ssl.get());
  ERR_clear_error();
}

std::string TlsSession::Exporter(std::string_view label) const {
  std::string secret(kExporterBytes, '\0');
  MustHold(
      SSL_export_keying_material(state_->ssl.get(), reinterpret_cast<unsigned char*>(secret.data()),
                                 secret.size(), label.data(), label.size(), nullptr, 0, 0) == 1,
      "SSL_export_keying_material");
  return secret;
}

std::string TlsSession::Protocol() const {
  const unsigned char* name = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(state_->ssl.get(), &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

}  // namespace muster
