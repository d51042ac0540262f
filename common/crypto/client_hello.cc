#include "common/crypto/client_hello.h"

#include <algorithm>
#include <cstdint>

namespace muster {
namespace {

constexpr uint8_t kHandshakeRecord = 22;
constexpr uint8_t kClientHelloMessage = 1;
constexpr uint16_t kAlpnExtension = 16;
// RFC 8446, 5.1.
constexpr size_t kMaxRecordBytes = size_t{1} << 14;

// Takes big-endian numbers and vectors from the front of bytes; once something is missing, all that
// follows is.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool empty() const { return bytes_.empty(); }
  std::string_view Take(size_t count) {
    if (count > bytes_.size()) {
      ok_ = false;
      bytes_ = {};
      return {};
    }
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  size_t Number(size_t width) {
    size_t value = 0;
    for (const char byte : Take(width)) value = value << 8 | static_cast<uint8_t>(byte);
    return value;
  }
  // Bytes whose number, of `width` bytes, comes first.
  std::string_view Vector(size_t width) { return Take(Number(width)); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

// Content of the ALPN extension.
bool ReadProtocols(std::string_view content, std::vector<std::string_view>& protocols) {
  Reader extension(content);
  Reader list(extension.Vector(2));
  while (list.ok() && !list.empty()) {
    const std::string_view protocol = list.Vector(1);
    if (!protocol.empty()) protocols.push_back(protocol);
  }
  return extension.ok() && extension.empty() && list.ok();
}

}  // namespace

bool ClientHello::Offers(std::string_view protocol) const {
  return std::find(protocols.begin(), protocols.end(), protocol) != protocols.end();
}

std::optional<ClientHello> ParseClientHello(std::string_view bytes) {
  ClientHello hello;
  // Known from its first byte on, so that other protocols are not waited for.
  if (!bytes.empty() && static_cast<uint8_t>(bytes[0]) != kHandshakeRecord) return std::nullopt;
  if (bytes.size() > 1 && bytes[1] != 3) return std::nullopt;
  if (bytes.size() < kTlsRecordHeaderBytes) {
    hello.wanted_bytes = kTlsRecordHeaderBytes;
    return hello;
  }
  Reader record(bytes.substr(3));
  const size_t record_bytes = record.Number(2);
  if (record_bytes < 4 || record_bytes > kMaxRecordBytes) return std::nullopt;
  if (bytes.size() < kTlsRecordHeaderBytes + record_bytes) {
    hello.wanted_bytes = kTlsRecordHeaderBytes + record_bytes;
    return hello;
  }
  Reader message(bytes.substr(kTlsRecordHeaderBytes, record_bytes));
  if (message.Number(1) != kClientHelloMessage) return std::nullopt;
  Reader body(message.Vector(3));
  if (!message.ok() || !message.empty()) return std::nullopt;
  body.Take(2 + 32);  // version and random bytes
  body.Vector(1);     // session
  body.Vector(2);     // cipher suites
  body.Vector(1);     // compression
  if (!body.ok()) return std::nullopt;
  if (body.empty()) return hello;
  Reader extensions(body.Vector(2));
  if (!body.ok() || !body.empty()) return std::nullopt;
  while (extensions.ok() && !extensions.empty()) {
    const size_t type = extensions.Number(2);
    const std::string_view content = extensions.Vector(2);
    if (type != kAlpnExtension || !extensions.ok()) continue;
    if (!hello.protocols.empty() || !ReadProtocols(content, hello.protocols)) return std::nullopt;
  }
  if (!extensions.ok()) return std::nullopt;
  return hello;
}

}  // namespace muster
