// Kinds of members in messages and in the trust of the cluster. Pure.
#pragma once

#include "common/crypto/identity.h"
#include "muster/v1/trust.pb.h"

namespace muster {

inline v1::MemberKind KindOf(IdentityKind kind) {
  switch (kind) {
    case IdentityKind::kAgent:
      return v1::MEMBER_AGENT;
    case IdentityKind::kUser:
      return v1::MEMBER_USER;
    case IdentityKind::kAdmin:
      return v1::MEMBER_ADMIN;
    case IdentityKind::kCoordinator:
      break;
  }
  return v1::MEMBER_KIND_UNSPECIFIED;
}

}  // namespace muster
