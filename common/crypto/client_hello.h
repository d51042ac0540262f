// The first message of a TLS client, as far as it says which protocol (ALPN) will be spoken. Looked
// at before anything is decrypted or answered, to tell who goes where on the one network port.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace muster {

// Record header of TLS: as many bytes must be there to know how many belong to the message.
inline constexpr size_t kTlsRecordHeaderBytes = 5;

struct ClientHello {
  // More bytes are needed: so many in all. 0: `protocols` is complete.
  size_t wanted_bytes = 0;
  // Protocols that the client offers, in its order; they point into what was parsed. Empty: none.
  std::vector<std::string_view> protocols;

  bool Offers(std::string_view protocol) const;
};

// `bytes`: what has come so far. Nothing: this is no TLS client, or one that cuts its first message
// into pieces (none that is known does).
std::optional<ClientHello> ParseClientHello(std::string_view bytes);

}  // namespace muster
