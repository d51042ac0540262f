// Becomes a member of a cluster with a token, or comes back into it. Blocks the calling thread,
// never longer than its limit (but for the resolver, which has its own). Nothing of the token is
// sent before the server has proven that it owns the CA that the token's pin names.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/crypto/private_key.h"
#include "common/trust/credentials.h"

namespace muster {

struct JoinOptions {
  // Of the coordinator's join port: host:port or [v6]:port.
  std::string address;
  // As it was given out, see common/crypto/join_token.h.
  std::string token;
  // kAgent or kUser: what to become. A token for the other is refused and not spent.
  IdentityKind kind = IdentityKind::kAgent;
  // Name to join as; empty: the one that the token is bound to.
  std::string name;
  // Recorded by the coordinator; may be empty.
  std::string machine_id;
  std::string boot_id;
  std::string version;
  // CredentialsDirectory::PendingKey: with the same key a join can be repeated.
  PrivateKey key;
  std::chrono::milliseconds limit = std::chrono::seconds(15);
};

// INVALID_ARGUMENT: address or token. UNAVAILABLE, DEADLINE_EXCEEDED: try again. PERMISSION_DENIED:
// the server is not of the token's cluster, or refused; its words are in the text.
// FAILED_PRECONDITION: the clocks differ; the text has both.
absl::StatusOr<Credentials> Join(const JoinOptions& options, const Clock& clock);

// A member whose certificate may have ended.
struct RejoinOptions {
  std::string address;
  Credentials member;
  // CredentialsDirectory::PendingKey, for the new certificate.
  PrivateKey key;
  std::string version;
  std::chrono::milliseconds limit = std::chrono::seconds(15);
};

// Comes back into the cluster with the key of a certificate that ended not too long ago; also with
// one that has not ended. Nothing is sent before the server has proven to be of an authority that
// the member trusts. Errors as of Join; PERMISSION_DENIED lasts until somebody does what it says.
absl::StatusOr<Credentials> Rejoin(const RejoinOptions& options, const Clock& clock);

struct MembershipAnswer {
  // OK, or the error that Rejoin would return.
  absl::Status status;
  // The coordinator's clock; nothing when it did not answer.
  std::optional<WallTime> coordinator_time;
};
// What would come of it. Changes nothing.
MembershipAnswer CheckMembership(const RejoinOptions& options, const Clock& clock);

}  // namespace muster
