// Converts between the two status types. The codes have the same numbers. Pure.
#pragma once

#include <absl/status/status.h>
#include <grpcpp/support/status.h>

namespace muster {

// A message that is too long to be sent is cut, and says so.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace muster
