// Credentials of mutual TLS for channels and servers of gRPC. Whoever is at the other end is found
// out by the names in its certificate, never by the host name that was dialled. Thread-safe.
#pragma once

#include <absl/status/status.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster {

// One's own certificate and whom to trust. PEM.
struct TlsMaterial {
  std::string key;
  // The certificate, then those between it and the authority.
  std::string certificates;
  // Certificates of the authorities that are trusted; two while they change.
  std::string authorities;
};

// What the other end showed. Its chain leads to a trusted authority.
struct TlsPeer {
  // Its certificate, PEM.
  std::string certificate;
  // Names of the type URI.
  std::vector<std::string> uris;
};

// Decides about a peer; an error ends the handshake. Called on threads of gRPC, must not block.
using TlsPeerCheck = std::function<absl::Status(const TlsPeer& peer)>;

// For channels. The material is used for every connection of the channel.
std::shared_ptr<grpc::ChannelCredentials> MakeTlsChannelCredentials(const TlsMaterial& material,
                                                                    TlsPeerCheck check);

// Where a server has its material from: files that are read again when they change.
struct TlsFiles {
  std::string key;
  std::string certificates;
  std::string authorities;
};

// For servers: a client without a certificate of a trusted authority sees no byte of gRPC.
std::shared_ptr<grpc::ServerCredentials> MakeTlsServerCredentials(const TlsFiles& files,
                                                                  TlsPeerCheck check);

}  // namespace muster
