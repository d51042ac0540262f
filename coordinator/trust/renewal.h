// Decides whether a member gets a new certificate: one that asks with a good certificate, and one
// (a node only) that comes back with one that has ended. Pure over what it reads from the store,
// like enrolment.h.
//
// A member has one newest certificate; a person has one on each machine that joined. It renews with
// that one, and only with a key that it has not used before. If the answer is lost, it asks again
// with the same new key and gets what was made. Whoever asks with an older certificate and another
// key has a copy of what the member was.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <variant>

#include "common/base/clock.h"
#include "common/crypto/private_key.h"
#include "coordinator/trust/enrolment.h"
#include "coordinator/trust/trust_records.h"
#include "muster/v1/join.pb.h"

namespace muster {

// A certificate is to be made, if the newest one is still that with this serial number.
struct RenewalGrant {
  IdentityKind kind = IdentityKind::kAgent;
  std::string name;
  PublicKey key;
  std::string serial;
};
using RenewalDecision = std::variant<JoinRefusal, RenewalGrant, JoinRepetition>;

// `presented`: the certificate with which the member asks; whoever asks has proven its key.
absl::StatusOr<RenewalDecision> DecideRenewal(const IssuedCertificate& presented,
                                              const PublicKey& key, WallTime now,
                                              EnrolmentRecords& records);

// For a request with a member_certificate: checks its proof first. `exporter`: of the connection.
absl::StatusOr<RenewalDecision> DecideRejoin(const v1::JoinRequest& request, WallTime now,
                                             std::string_view exporter, EnrolmentRecords& records);

}  // namespace muster
