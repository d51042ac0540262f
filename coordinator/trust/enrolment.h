// Decides who may join. Pure over what it reads from the store: it changes nothing, and the store
// checks again what may have changed when the decision is carried out.
//
// Who does not know the token's secret learns nothing about the token: only that the two do not
// fit. Who does is told exactly what is wrong.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "common/base/clock.h"
#include "common/crypto/private_key.h"
#include "coordinator/trust/trust_records.h"
#include "muster/v1/join.pb.h"

namespace muster {

// For how long a request of the same key is answered with the same certificate.
inline constexpr std::chrono::minutes kJoinAgain{10};
inline constexpr size_t kMaxJoinTextBytes = 128;

// What a decision needs to know.
class EnrolmentRecords {
 public:
  virtual ~EnrolmentRecords() = default;
  virtual absl::StatusOr<std::optional<StoredToken>> FindToken(std::string_view id) = 0;
  virtual absl::StatusOr<std::optional<Member>> FindMember(IdentityKind kind,
                                                           std::string_view name) = 0;
  virtual absl::StatusOr<std::optional<IssuedCertificate>> FindCertificate(
      std::string_view serial) = 0;
};

struct JoinRefusal {
  v1::JoinRefused::Cause cause = v1::JoinRefused::CAUSE_UNSPECIFIED;
  // For people, at the other end too.
  std::string message;
};
// One use of the token is to be consumed, and a certificate made.
struct JoinAdmission {
  IdentityKind kind = IdentityKind::kAgent;
  std::string name;
  PublicKey key;
  std::string token_id;
};
// It has joined already: the same certificate again.
struct JoinRepetition {
  IssuedCertificate certificate;
};
using JoinDecision = std::variant<JoinRefusal, JoinAdmission, JoinRepetition>;

// The message of a request. INVALID_ARGUMENT: it cannot be read, or a field is too long or no text.
absl::StatusOr<v1::JoinRequest> DecodeJoinRequest(std::string_view bytes);

// `peer_address`: numeric. `exporter`: of the connection that the request came on. An error is one
// of the records; everything else is a decision.
absl::StatusOr<JoinDecision> DecideEnrolment(const v1::JoinRequest& request,
                                             std::string_view peer_address, WallTime now,
                                             std::string_view exporter, EnrolmentRecords& records);

}  // namespace muster
