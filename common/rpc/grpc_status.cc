#include "common/rpc/grpc_status.h"

#include <string>

#include "common/base/annotate.h"

namespace muster {
namespace {

// The message travels as a header, percent-encoded, and a client refuses more than 8 KiB of
// headers: it would see neither code nor message.
constexpr size_t kMaxEncodedBytes = 6000;

std::string Shortened(std::string text) {
  size_t encoded = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    encoded += byte < 0x20 || byte > 0x7e || byte == '%' ? 3 : 1;
    if (encoded <= kMaxEncodedBytes) continue;
    // Not within a character.
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
    const size_t left_out = text.size() - at;
    text.resize(at);
    return text + " ... (" + std::to_string(left_out) + " more bytes)";
  }
  return text;
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Shortened(std::string(MessageOf(status))));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      ToAbsl(status.error_message()));
}

}  // namespace muster
