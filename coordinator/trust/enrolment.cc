#include "coordinator/trust/enrolment.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>

#include <utility>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/crypto/csr.h"
#include "common/crypto/digest.h"
#include "common/crypto/join_frame.h"
#include "common/crypto/join_token.h"
#include "coordinator/trust/ip_address.h"

namespace muster {
namespace {

using v1::JoinRefused;

// A request has no messages inside; newer ones may.
constexpr int kMaxDepth = 4;

// What the token says against this request, whatever its time and its uses.
std::optional<JoinRefusal> CheckBindings(const StoredToken& token, const std::string& name,
                                         v1::JoinRequest::Role role,
                                         std::string_view peer_address) {
  const auto token_role =
      token.role == IdentityKind::kAgent ? v1::JoinRequest::AGENT : v1::JoinRequest::USER;
  if (role != v1::JoinRequest::ROLE_UNSPECIFIED && role != token_role) {
    return JoinRefusal{JoinRefused::WRONG_ROLE,
                       fmt::format("the token makes a member of kind {}, and this is not how one "
                                   "joins (have a token of the right kind made)",
                                   IdentityKindName(token.role))};
  }
  if (!token.bound_name.empty() && name != token.bound_name) {
    return JoinRefusal{JoinRefused::WRONG_NAME,
                       fmt::format("the token is for the {} '{}', not for '{}' (join with that "
                                   "name, or have a token made for this one)",
                                   IdentityKindName(token.role), token.bound_name, name)};
  }
  if (token.bound_network.empty()) return std::nullopt;
  const std::optional<IpNetwork> network = ParseIpNetwork(token.bound_network);
  const std::optional<IpAddress> address = ParseIpAddress(peer_address);
  if (network && address && Contains(*network, *address)) return std::nullopt;
  return JoinRefusal{
      JoinRefused::WRONG_ADDRESS,
      fmt::format("the token is good from {}, and this connection comes from {} (have a token made "
                  "for that address)",
                  token.bound_network, peer_address)};
}

std::optional<JoinRefusal> CheckToken(const StoredToken& token, WallTime now) {
  if (now >= token.expires_at) {
    return JoinRefusal{
        JoinRefused::EXPIRED,
        fmt::format("the token ended at {}, and the coordinator's clock says {} (have a new one "
                    "made)",
                    FormatUtc(token.expires_at), FormatUtc(now))};
  }
  if (token.uses_left < 1) {
    return JoinRefusal{JoinRefused::USED_UP,
                       "all uses of the token are spent (have a new one made)"};
  }
  return std::nullopt;
}

std::optional<JoinRefusal> CheckMember(const std::optional<Member>& member,
                                       const std::string& spki_sha256) {
  if (!member) return std::nullopt;
  const std::string_view kind = IdentityKindName(member->kind);
  if (member->revoked) {
    return JoinRefusal{JoinRefused::REVOKED,
                       fmt::format("the {} '{}' was revoked (join with another name, or have an "
                                   "administrator free this one: coordinator revoke {} {} "
                                   "--free-name)",
                                   kind, member->name, kind, member->name)};
  }
  if (member->spki_sha256 == spki_sha256) return std::nullopt;
  // People have several machines, and a token for one is made for this very person.
  if (member->kind == IdentityKind::kUser) return std::nullopt;
  return JoinRefusal{
      JoinRefused::NAME_TAKEN,
      fmt::format("there is another {} '{}', which joined at {} with another key "
                  "(join with another name, or have an administrator free this one: "
                  "coordinator revoke {} {} --free-name)",
                  kind, member->name, FormatUtc(member->joined_at), kind, member->name)};
}

// The certificate that this very request has been answered with a moment ago, if it has.
absl::StatusOr<std::optional<IssuedCertificate>> FindAnswered(const std::optional<Member>& member,
                                                              const StoredToken& token,
                                                              const std::string& spki_sha256,
                                                              WallTime now,
                                                              EnrolmentRecords& records) {
  if (!member || member->revoked || member->spki_sha256 != spki_sha256 ||
      member->token_id != token.id || now - member->joined_at > kJoinAgain) {
    return std::nullopt;
  }
  auto found = records.FindCertificate(member->serial);
  if (found.ok() && *found && ((*found)->revoked || now >= (*found)->not_after)) {
    return std::nullopt;
  }
  return found;
}

}  // namespace

absl::StatusOr<v1::JoinRequest> DecodeJoinRequest(std::string_view bytes) {
  if (bytes.empty() || bytes.size() > kMaxJoinRequestBytes) {
    return absl::InvalidArgumentError(fmt::format("a request of {} bytes, 1 to {} are possible",
                                                  bytes.size(), kMaxJoinRequestBytes));
  }
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(kMaxDepth);
  v1::JoinRequest request;
  // Also refuses texts that are not UTF-8; strangers shall not write about them on our stderr.
  const google::protobuf::LogSilencer silencer;
  if (!request.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return absl::InvalidArgumentError("the request is not readable");
  }
  request.DiscardUnknownFields();
  for (const std::string* text : {&request.token_id(), &request.name(), &request.machine_id(),
                                  &request.boot_id(), &request.version()}) {
    if (text->size() > kMaxJoinTextBytes) {
      return absl::InvalidArgumentError("a field of the request is too long");
    }
  }
  if (request.csr().size() > kMaxCsrBytes || request.proof().size() > kMaxJoinTextBytes ||
      request.member_certificate().size() > kMaxCsrBytes ||
      request.member_signature().size() > kMaxJoinTextBytes) {
    return absl::InvalidArgumentError("a field of the request is too long");
  }
  return request;
}

absl::StatusOr<JoinDecision> DecideEnrolment(const v1::JoinRequest& request,
                                             std::string_view peer_address, WallTime now,
                                             std::string_view exporter, EnrolmentRecords& records) {
  if (request.protocol() < kJoinProtocol) {
    return JoinRefusal{JoinRefused::VERSION,
                       fmt::format("this program speaks version {} of the join protocol, and the "
                                   "coordinator wants {} or later (install a newer one)",
                                   request.protocol(), kJoinProtocol)};
  }
  const absl::StatusOr<std::optional<StoredToken>> found = records.FindToken(request.token_id());
  if (!found.ok()) return found.status();
  // The same work for a token that does not exist.
  const std::string key = *found ? (*found)->key : std::string(kSha256Bytes, '\0');
  const bool proven = ConstantTimeEqual(JoinProof(key, exporter, request.csr()), request.proof());
  if (!*found || !proven) {
    return JoinRefusal{JoinRefused::UNKNOWN_TOKEN,
                       "the coordinator does not know this token: it was removed, or is of another "
                       "coordinator, or its secret is wrong (have a new one made)"};
  }
  const StoredToken& token = **found;
  const absl::StatusOr<PublicKey> public_key = ParseCsr(request.csr());
  if (!public_key.ok()) {
    return JoinRefusal{JoinRefused::BAD_REQUEST, std::string(MessageOf(public_key.status()))};
  }
  const std::string name = request.name().empty() ? token.bound_name : request.name();
  if (std::optional<JoinRefusal> refusal =
          CheckBindings(token, name, request.role(), peer_address)) {
    return *std::move(refusal);
  }
  if (name.empty()) {
    return JoinRefusal{JoinRefused::BAD_REQUEST,
                       "the token is for any name, so a name must be given"};
  }
  if (!IsIdentityName(token.role, name)) {
    return JoinRefusal{
        JoinRefused::BAD_REQUEST,
        fmt::format("the name is not valid for a member of kind {}: it must be 1 to 63 of a-z and "
                    "0-9, inside also {}",
                    IdentityKindName(token.role),
                    token.role == IdentityKind::kAgent ? "-" : "- . and _")};
  }
  const std::string spki_sha256 = public_key->SpkiSha256();
  const absl::StatusOr<std::optional<Member>> member = records.FindMember(token.role, name);
  if (!member.ok()) return member.status();
  // First: what was answered has spent the token, and it may be over by now.
  auto answered = FindAnswered(*member, token, spki_sha256, now, records);
  if (!answered.ok()) return answered.status();
  if (*answered) return JoinRepetition{**std::move(answered)};
  if (std::optional<JoinRefusal> refusal = CheckToken(token, now)) return *std::move(refusal);
  if (std::optional<JoinRefusal> refusal = CheckMember(*member, spki_sha256)) {
    return *std::move(refusal);
  }
  return JoinAdmission{token.role, name, *public_key, token.id};
}

}  // namespace muster
