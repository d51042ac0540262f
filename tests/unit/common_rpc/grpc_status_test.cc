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

TEST(GrpcStatus, CutsWhatIsTooLongForAHeader) {
  const auto sent = [](const std::string& text) {
    return ToGrpc(absl::InvalidArgumentError(text)).error_message();
  };
  EXPECT_EQ(sent(std::string(6000, 'x')), std::string(6000, 'x'));
  EXPECT_EQ(sent(std::string(6001, 'x')), std::string(6000, 'x') + " ... (1 more bytes)");
  // Such bytes take three each.
  EXPECT_EQ(sent(std::string(3000, '%')), std::string(2000, '%') + " ... (1000 more bytes)");
  std::string accents;
  for (int i = 0; i < 2000; ++i) accents += "\u00e9";
  EXPECT_EQ(sent(accents), accents.substr(0, 2000) + " ... (2000 more bytes)");
  EXPECT_EQ(sent("x" + accents).size(), 1999 + std::string(" ... (2002 more bytes)").size());
}

}  // namespace
}  // namespace muster
