#include "common/rpc/grpc_status.h"

#include <gtest/gtest.h>

#include "common/base/annotate.h"

namespace muster {
namespace {

TEST(GrpcStatus, KeepsCodeAndText) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "what happened");
    const grpc::Status sent = ToGrpc(status);
    EXPECT_EQ(static_cast<int>(sent.error_code()), code);
    EXPECT_EQ(FromGrpc(sent), status);
  }
}

}  // namespace
}  // namespace muster
