#include "tests/fuzz/trust_targets.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <variant>

#include "common/base/annotate.h"
#include "common/crypto/client_hello.h"
#include "common/crypto/csr.h"
#include "common/crypto/digest.h"
#include "common/crypto/identity.h"
#include "common/crypto/join_frame.h"
#include "common/crypto/join_token.h"
#include "coordinator/trust/enrolment.h"
#include "coordinator/trust/renewal.h"

namespace muster {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
const WallTime kNow{std::chrono::seconds(1'800'000'000)};

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

std::string Trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return std::string(text.substr(0, text.find_last_not_of(kBlanks) + 1));
}

// A cluster with one token of any name and no members.
class OneToken final : public EnrolmentRecords {
 public:
  explicit OneToken(StoredToken token) : token_(std::move(token)) {}
  absl::StatusOr<std::optional<StoredToken>> FindToken(std::string_view id) override {
    if (id == token_.id) return token_;
    return std::nullopt;
  }
  absl::StatusOr<std::optional<Member>> FindMember(IdentityKind, std::string_view) override {
    return std::nullopt;
  }
  absl::StatusOr<std::optional<IssuedCertificate>> FindCertificate(std::string_view) override {
    return std::nullopt;
  }

 private:
  StoredToken token_;
};

// What is wrong with the decision about `request`, whose proof is right or not.
std::string CheckDecision(const v1::JoinRequest& request, bool proven, OneToken& records) {
  const auto decision = DecideEnrolment(request, "10.0.0.1", kNow, "exporter", records);
  if (!decision.ok()) return "an error of records that have none";
  if (std::holds_alternative<JoinRepetition>(*decision)) return "a repetition of nothing";
  if (const auto* refusal = std::get_if<JoinRefusal>(&*decision)) {
    if (!IsPrintable(refusal->message)) return "a refusal is not printable";
    const bool unknown = refusal->cause == v1::JoinRefused::UNKNOWN_TOKEN ||
                         refusal->cause == v1::JoinRefused::VERSION;
    return proven || unknown ? "" : "it tells strangers more than it should";
  }
  const auto& admission = std::get<JoinAdmission>(*decision);
  if (!proven) return "admitted without a proof";
  if (!IsIdentityName(IdentityKind::kAgent, admission.name)) return "admitted with a wrong name";
  const auto key = ParseCsr(request.csr());
  return key.ok() && key->SpkiSha256() == admission.key.SpkiSha256() ? "" : "another key";
}

// Nobody comes back into a cluster that knows nobody.
std::string CheckRejoin(const v1::JoinRequest& request) {
  OneToken nobody({});
  const absl::StatusOr<RenewalDecision> decision = DecideRejoin(request, kNow, "exporter", nobody);
  if (!decision.ok()) return "a decision failed";
  const auto* refusal = std::get_if<JoinRefusal>(&*decision);
  if (refusal == nullptr) return "somebody unknown came back";
  return IsPrintable(refusal->message) ? "" : "a message is not printable";
}

}  // namespace

std::string FuzzJoinToken(std::string_view bytes) {
  const absl::StatusOr<JoinToken> parsed = ParseToken(bytes);
  if (parsed.ok()) {
    return FormatToken(*parsed) == Trimmed(bytes) ? "" : "a token has two writings";
  }
  const std::string_view message = MessageOf(parsed.status());
  if (!IsPrintable(message)) return "a message is not printable";
  // Texts are constants and numbers, so nothing of the length of a secret can come from the input.
  for (const char* end : {"a", "7"}) {
    if (MessageOf(ParseToken(std::string(bytes) + end).status()).size() > 200) {
      return "a message grows with the token";
    }
  }
  // The same bytes as a secret survive.
  JoinToken token = MakeToken(Sha256(bytes));
  token.secret = Sha256(bytes).substr(0, token.secret.size());
  const absl::StatusOr<JoinToken> again = ParseToken(FormatToken(token));
  return again.ok() && *again == token ? "" : "a token does not survive";
}

std::string FuzzIdentity(std::string_view bytes) {
  const std::string inside = "spiffe://01234567-89ab-cdef-0123-456789abcdef/" + std::string(bytes);
  for (const std::string& uri : {std::string(bytes), inside}) {
    const absl::StatusOr<Identity> parsed = ParseIdentity(uri);
    if (!parsed.ok()) {
      if (!IsPrintable(MessageOf(parsed.status()))) return "a message is not printable";
      continue;
    }
    if (ToUri(*parsed) != uri) return "an identity has two writings";
    if (!IsClusterId(parsed->cluster_id)) return "a wrong cluster id";
    if (!IsIdentityName(parsed->kind, parsed->name)) return "a wrong name";
    if (parsed->name.find_first_of("/\\%@:") != std::string::npos) return "a name that is a path";
  }
  return {};
}

std::string FuzzJoinRequest(std::string_view bytes) {
  const auto unframed = UnframeJoinMessage(bytes, kMaxJoinRequestBytes);
  if (unframed.ok() && *unframed && FrameJoinMessage(**unframed) != bytes) {
    return "a frame has two writings";
  }
  const absl::StatusOr<v1::JoinRequest> decoded = DecodeJoinRequest(bytes);
  if (!decoded.ok()) {
    return IsPrintable(MessageOf(decoded.status())) ? "" : "a message is not printable";
  }
  v1::JoinRequest request = *decoded;
  const absl::StatusOr<v1::JoinRequest> again = DecodeJoinRequest(request.SerializeAsString());
  if (!request.SerializeAsString().empty() &&
      (!again.ok() || again->SerializeAsString() != request.SerializeAsString())) {
    return "a request does not survive";
  }
  if (std::string problem = CheckRejoin(request); !problem.empty()) return problem;
  const std::string key = Sha256("key");
  OneToken records({.id = request.token_id(),
                    .key = key,
                    .uses_left = 1,
                    .created_at = kNow,
                    .expires_at = kNow + std::chrono::hours(1)});
  if (std::string problem = CheckDecision(request, false, records); !problem.empty()) {
    return problem;
  }
  request.set_protocol(kJoinProtocol);
  request.set_proof(JoinProof(key, "exporter", request.csr()));
  return CheckDecision(request, true, records);
}

std::string FuzzClientHello(std::string_view bytes) {
  const std::optional<ClientHello> hello = ParseClientHello(bytes);
  if (!hello.has_value()) return "";
  if (hello->wanted_bytes > 0) {
    if (!hello->protocols.empty()) return "protocols of what is not complete";
    return hello->wanted_bytes > bytes.size() ? "" : "it wants what it has";
  }
  for (const std::string_view protocol : hello->protocols) {
    if (protocol.data() < bytes.data() ||
        protocol.data() + protocol.size() > bytes.data() + bytes.size()) {
      return "a protocol from elsewhere";
    }
  }
  // What follows the first message changes nothing.
  const std::string longer = std::string(bytes) + "more";
  const std::optional<ClientHello> again = ParseClientHello(longer);
  return again.has_value() && again->protocols == hello->protocols ? "" : "the rest matters";
}

std::vector<FuzzTarget> TrustFuzzTargets() {
  return {{"join_token", FuzzJoinToken},
          {"identity", FuzzIdentity},
          {"join_request", FuzzJoinRequest},
          {"client_hello", FuzzClientHello}};
}

}  // namespace muster
