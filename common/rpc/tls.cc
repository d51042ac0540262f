#include "common/rpc/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <utility>

#include "common/crypto/tls_buffers.h"
#include "common/rpc/grpc_status.h"

namespace muster {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;
using grpc::experimental::IdentityKeyCertPair;
using grpc::experimental::StaticDataCertificateProvider;

// How often changed files are looked for.
constexpr unsigned kFileWatchSeconds = 1;

class PeerVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit PeerVerifier(TlsPeerCheck check) : check_(std::move(check)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* sync_status) override {
    const grpc::string_ref certificate = request->peer_cert();
    TlsPeer peer{.certificate = std::string(certificate.data(), certificate.size())};
    for (const grpc::string_ref& uri : request->uri_names()) {
      peer.uris.emplace_back(uri.data(), uri.size());
    }
    *sync_status = ToGrpc(check_(peer));
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const TlsPeerCheck check_;
};

void Configure(grpc::experimental::TlsCredentialsOptions& options, TlsPeerCheck check) {
  ReleaseIdleTlsBuffers();
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<PeerVerifier>(std::move(check)));
  options.set_check_call_host(false);
}

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> MakeTlsChannelCredentials(const TlsMaterial& material,
                                                                    TlsPeerCheck check) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<StaticDataCertificateProvider>(
      material.authorities,
      std::vector<IdentityKeyCertPair>{{material.key, material.certificates}}));
  Configure(options, std::move(check));
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> MakeTlsServerCredentials(const TlsFiles& files,
                                                                  TlsPeerCheck check) {
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(files.key, files.certificates,
                                                       files.authorities, kFileWatchSeconds));
  Configure(options, std::move(check));
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace muster
