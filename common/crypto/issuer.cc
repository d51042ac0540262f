#include "common/crypto/issuer.h"

#include <fmt/format.h>
#include <openssl/err.h>

#include <algorithm>
#include <memory>

#include "common/base/utc.h"
#include "common/crypto/digest.h"
#include "common/crypto/openssl.h"

namespace muster {
namespace {

constexpr size_t kSerialBytes = 16;
constexpr size_t kMaxHostBytes = 253;
constexpr auto kInternal = absl::StatusCode::kInternal;

bool SetSerial(X509* certificate) {
  std::string serial = RandomBytes(kSerialBytes);
  // Positive, and always of the same length.
  serial[0] = static_cast<char>((serial[0] & 0x7f) | 0x40);
  const BignumPtr number(BN_bin2bn(Unsigned(serial), kSerialBytes, nullptr));
  return number != nullptr &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool SetTimes(X509* certificate, WallTime not_before, WallTime not_after) {
  using std::chrono::system_clock;
  return ASN1_TIME_set(X509_getm_notBefore(certificate), system_clock::to_time_t(not_before)) !=
             nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), system_clock::to_time_t(not_after)) !=
             nullptr;
}

bool AddName(X509_NAME* name, const char* field, std::string_view value) {
  return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, Unsigned(value),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

bool SetSubject(X509* certificate, std::string_view kind, std::string_view name) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  return AddName(subject, "O", kind) && AddName(subject, "CN", name);
}

// `value` in the language of OpenSSL's configuration: constants only, never what others chose.
bool AddExtension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  const bool added = extension != nullptr && X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

// Null when it is no numeric address.
ASN1_OCTET_STRING* ParseAddress(const std::string& host) {
  ASN1_OCTET_STRING* address = a2i_IPADDRESS(host.c_str());
  if (address == nullptr) ERR_clear_error();
  return address;
}

bool AddText(GENERAL_NAMES* names, int type, std::string_view text) {
  ASN1_IA5STRING* value = ASN1_IA5STRING_new();
  GENERAL_NAME* name = GENERAL_NAME_new();
  if (value == nullptr || name == nullptr ||
      ASN1_STRING_set(value, text.data(), static_cast<int>(text.size())) != 1) {
    return false;
  }
  GENERAL_NAME_set0_value(name, type, value);
  return sk_GENERAL_NAME_push(names, name) > 0;
}

bool AddAddress(GENERAL_NAMES* names, ASN1_OCTET_STRING* address) {
  GENERAL_NAME* name = GENERAL_NAME_new();
  if (name == nullptr) return false;
  GENERAL_NAME_set0_value(name, GEN_IPADD, address);
  return sk_GENERAL_NAME_push(names, name) > 0;
}

bool AddNames(X509* certificate, std::string_view uri, const std::vector<std::string>& hosts) {
  const GeneralNamesPtr names(GENERAL_NAMES_new());
  if (names == nullptr || !AddText(names.get(), GEN_URI, uri)) return false;
  for (const std::string& host : hosts) {
    ASN1_OCTET_STRING* address = ParseAddress(host);
    const bool added =
        address != nullptr ? AddAddress(names.get(), address) : AddText(names.get(), GEN_DNS, host);
    if (!added) return false;
  }
  return X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) ==
         1;
}

absl::Status CheckProfile(const CertificateProfile& profile) {
  const Identity& identity = profile.identity;
  if (!IsClusterId(identity.cluster_id) || !IsIdentityName(identity.kind, identity.name)) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is no valid identity for a certificate", ToUri(identity)));
  }
  if (!profile.client && !profile.server) {
    return absl::InvalidArgumentError("a certificate that is neither for clients nor for servers");
  }
  if (profile.not_after <= profile.not_before) {
    return absl::InvalidArgumentError("a certificate that ends before it begins");
  }
  for (const std::string& host : profile.hosts) {
    if (IsCertificateHost(host)) continue;
    return absl::InvalidArgumentError(
        fmt::format("'{}' is neither a host name nor a numeric address", host));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsCertificateHost(const std::string& host) {
  if (ASN1_OCTET_STRING* address = ParseAddress(host)) {
    ASN1_OCTET_STRING_free(address);
    return true;
  }
  if (host.empty() || host.size() > kMaxHostBytes || host.front() == '-' || host.front() == '.') {
    return false;
  }
  return std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.';
  });
}

WallTime IssuedAt(const Certificate& certificate) {
  return std::min(certificate.not_before() + kBackdate, certificate.not_after());
}

bool IsSignedBy(const Certificate& certificate, const Certificate& ca) {
  const bool is = X509_check_issued(ca.native(), certificate.native()) == X509_V_OK &&
                  X509_verify(certificate.native(), X509_get0_pubkey(ca.native())) == 1;
  ERR_clear_error();
  return is;
}

absl::StatusOr<Certificate> MakeCa(const PrivateKey& key, const std::string& cluster_id,
                                   WallTime not_before, WallTime not_after) {
  if (!IsClusterId(cluster_id)) {
    return absl::InvalidArgumentError(fmt::format("'{}' is no cluster id", cluster_id));
  }
  if (not_after <= not_before) {
    return absl::InvalidArgumentError("a certificate that ends before it begins");
  }
  const std::shared_ptr<X509> ca(X509_new(), X509_free);
  X509* raw = ca.get();
  const bool made =
      raw != nullptr && X509_set_version(raw, X509_VERSION_3) == 1 && SetSerial(raw) &&
      SetTimes(raw, not_before, not_after) && SetSubject(raw, "muster CA", cluster_id) &&
      X509_set_issuer_name(raw, X509_get_subject_name(raw)) == 1 &&
      X509_set_pubkey(raw, key.native()) == 1 &&
      AddExtension(raw, raw, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
      AddExtension(raw, raw, NID_key_usage, "critical,keyCertSign,cRLSign") &&
      AddExtension(raw, raw, NID_subject_key_identifier, "hash") &&
      AddNames(raw, "spiffe://" + cluster_id, {}) && X509_sign(raw, key.native(), EVP_sha256()) > 0;
  if (!made) return OpensslStatus(kInternal, "the CA certificate cannot be made");
  return Certificate(ca);
}

absl::StatusOr<Certificate> Issue(const Certificate& ca, const PrivateKey& ca_key,
                                  const PublicKey& key, const CertificateProfile& profile) {
  if (absl::Status status = CheckProfile(profile); !status.ok()) return status;
  if (!ca.is_ca()) return absl::FailedPreconditionError("the CA certificate is none of a CA");
  if (!ca.Holds(ca_key)) {
    return absl::FailedPreconditionError("the CA key does not belong to the CA certificate");
  }
  if (ca.not_after() <= profile.not_before) {
    return absl::FailedPreconditionError(
        fmt::format("the CA certificate ended on {}", FormatUtc(ca.not_after())));
  }
  const Identity& identity = profile.identity;
  const std::string_view kind = IdentityKindName(identity.kind);
  const char* usage = profile.client && profile.server ? "clientAuth,serverAuth"
                      : profile.client                 ? "clientAuth"
                                                       : "serverAuth";
  const std::shared_ptr<X509> made(X509_new(), X509_free);
  X509* raw = made.get();
  const bool good =
      raw != nullptr && X509_set_version(raw, X509_VERSION_3) == 1 && SetSerial(raw) &&
      SetTimes(raw, profile.not_before, std::min(profile.not_after, ca.not_after())) &&
      SetSubject(raw, fmt::format("muster {}", kind),
                 identity.name.empty() ? kind : std::string_view(identity.name)) &&
      X509_set_issuer_name(raw, X509_get_subject_name(ca.native())) == 1 &&
      X509_set_pubkey(raw, key.native()) == 1 &&
      AddExtension(raw, ca.native(), NID_basic_constraints, "critical,CA:FALSE") &&
      AddExtension(raw, ca.native(), NID_key_usage, "critical,digitalSignature") &&
      AddExtension(raw, ca.native(), NID_ext_key_usage, usage) &&
      AddExtension(raw, ca.native(), NID_subject_key_identifier, "hash") &&
      AddExtension(raw, ca.native(), NID_authority_key_identifier, "keyid:always") &&
      AddNames(raw, ToUri(identity), profile.hosts) &&
      X509_sign(raw, ca_key.native(), EVP_sha256()) > 0;
  if (!good) return OpensslStatus(kInternal, "the certificate cannot be made");
  return Certificate(made);
}

}  // namespace muster
