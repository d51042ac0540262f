#include "coordinator/rpc/early_authorizer.h"

#include <grpc/grpc_security_constants.h>

#include <string>
#include <vector>

#include "common/rpc/grpc_status.h"
#include "coordinator/rpc/authorizer.h"
#include "coordinator/rpc/service_context.h"

namespace muster {

grpc::Status EarlyAuthorizer::Process(const InputMetadata& metadata, grpc::AuthContext* context,
                                      OutputMetadata*, OutputMetadata*) {
  const auto path = metadata.find(":path");
  const std::vector<grpc::string_ref> certificates =
      context->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (path == metadata.end() || certificates.size() != 1) return Denied("a call without a method");
  const std::string method(path->second.data(), path->second.size());
  const absl::StatusOr<Peer> peer =
      peers_.IdentifyCertificate(std::string(certificates[0].data(), certificates[0].size()));
  return peer.ok() && IsAllowed(method, peer->role) ? grpc::Status::OK : Denied(method);
}

}  // namespace muster
