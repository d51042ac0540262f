// What the coordinator remembers about who may join and who has joined. Values.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "common/crypto/identity.h"

namespace muster {

// A token that was given out. `key` lets its owner join: as sensitive as the CA's key.
struct StoredToken {
  std::string id;
  // TokenKey, 32 bytes; the secret itself is nowhere.
  std::string key;
  // kAgent or kUser: what who joins becomes.
  IdentityKind role = IdentityKind::kAgent;
  // The only name that it is good for; empty: any. Always set for users.
  std::string bound_name;
  // The only network that it is good from, as text; empty: any.
  std::string bound_network;
  int64_t uses_left = 0;
  WallTime created_at;
  WallTime expires_at;
  friend bool operator==(const StoredToken&, const StoredToken&) = default;
};

// A node or a person of the cluster; kind and name are unique.
struct Member {
  IdentityKind kind = IdentityKind::kAgent;
  std::string name;
  // Of its newest certificate.
  std::string spki_sha256;
  std::string serial;
  WallTime not_after;
  bool revoked = false;
  WallTime joined_at;
  // Empty: without a token, at the start of the cluster.
  std::string token_id;
  // What it said about itself when it joined.
  std::string machine_id;
  std::string boot_id;
  // Digests of the CAs that it has told it trusts, see AuthoritiesOf; empty: not told yet.
  std::string authorities;
  friend bool operator==(const Member&, const Member&) = default;
};

// A certificate that was given out.
struct IssuedCertificate {
  // Lower-case hexadecimal.
  std::string serial;
  IdentityKind kind = IdentityKind::kAgent;
  std::string name;
  std::string spki_sha256;
  WallTime issued_at;
  WallTime not_after;
  bool revoked = false;
  std::string der;
  // Serial number of the certificate that it was renewed to; empty: of none.
  std::string successor;
  friend bool operator==(const IssuedCertificate&, const IssuedCertificate&) = default;
};

}  // namespace muster
