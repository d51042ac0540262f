#include "coordinator/trust/trust_store.h"

namespace muster {

absl::StatusOr<std::unique_ptr<TrustStore>> TrustStore::Open(const std::string& path) {
  absl::StatusOr<TrustTables> tables = TrustTables::Open(path);
  if (!tables.ok()) return tables.status();
  return std::unique_ptr<TrustStore>(new TrustStore(*std::move(tables)));
}

absl::Status TrustStore::AddToken(const StoredToken& token) {
  MutexLock lock(mutex_);
  return tables_.AddToken(token);
}

absl::Status TrustStore::RemoveToken(std::string_view id) {
  MutexLock lock(mutex_);
  return tables_.RemoveToken(id);
}

absl::StatusOr<std::vector<StoredToken>> TrustStore::ListTokens() {
  MutexLock lock(mutex_);
  return tables_.ListTokens();
}

absl::StatusOr<std::optional<StoredToken>> TrustStore::FindToken(std::string_view id) {
  MutexLock lock(mutex_);
  return tables_.FindToken(id);
}

absl::StatusOr<std::vector<Member>> TrustStore::ListMembers() {
  MutexLock lock(mutex_);
  return tables_.ListMembers();
}

absl::StatusOr<std::optional<Member>> TrustStore::FindMember(IdentityKind kind,
                                                             std::string_view name) {
  MutexLock lock(mutex_);
  return tables_.FindMember(kind, name);
}

absl::StatusOr<std::optional<IssuedCertificate>> TrustStore::FindCertificate(
    std::string_view serial) {
  MutexLock lock(mutex_);
  return tables_.FindCertificate(serial);
}

absl::Status TrustStore::Enrol(const Member& member, const IssuedCertificate& certificate,
                               WallTime now) {
  MutexLock lock(mutex_);
  return tables_.Enrol(member, certificate, now);
}

absl::Status TrustStore::AddMember(const Member& member, const IssuedCertificate& certificate) {
  MutexLock lock(mutex_);
  return tables_.AddMember(member, certificate);
}

absl::Status TrustStore::Renew(const IssuedCertificate& certificate, std::string_view former,
                               WallTime now) {
  MutexLock lock(mutex_);
  return tables_.Renew(certificate, former, now);
}

absl::Status TrustStore::SetAuthorities(IdentityKind kind, std::string_view name,
                                        std::string_view authorities) {
  MutexLock lock(mutex_);
  return tables_.SetAuthorities(kind, name, authorities);
}

absl::StatusOr<std::vector<std::string>> TrustStore::Revoke(IdentityKind kind,
                                                            std::string_view name) {
  MutexLock lock(mutex_);
  return tables_.Revoke(kind, name);
}

absl::StatusOr<std::vector<std::string>> TrustStore::RemoveMember(IdentityKind kind,
                                                                  std::string_view name) {
  MutexLock lock(mutex_);
  return tables_.RemoveMember(kind, name);
}

absl::StatusOr<std::vector<std::string>> TrustStore::RevokedSerials(WallTime now) {
  MutexLock lock(mutex_);
  return tables_.RevokedSerials(now);
}

}  // namespace muster
