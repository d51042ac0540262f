#include "coordinator/trust/ca_rotation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "common/base/annotate.h"
#include "common/crypto/digest.h"
#include "common/crypto/issuer.h"
#include "common/io/unique_fd.h"
#include "coordinator/trust/trust_files.h"

namespace muster {
namespace {

absl::StatusOr<Trust> LoadInPhase(const std::string& directory, RotationPhase phase, WallTime now) {
  absl::StatusOr<Trust> trust = LoadTrust(directory, now);
  if (trust.ok() && trust->phase != phase) {
    return absl::FailedPreconditionError(
        fmt::format("{}: a change of the authority has not come to this step", directory));
  }
  return trust;
}

absl::Status SyncDirectory(const std::string& directory) {
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return ErrnoStatus(errno, directory);
  return absl::OkStatus();
}

// The CA that will sign next.
const Certificate* NextOf(const Trust& trust) {
  return trust.ca_bundle.size() < 2 ? nullptr : &trust.ca_bundle.back();
}

}  // namespace

absl::Status BeginRotation(const std::string& directory, WallTime now) {
  const absl::StatusOr<Trust> trust = LoadInPhase(directory, RotationPhase::kSteady, now);
  if (!trust.ok()) return trust.status();
  const PrivateKey key = PrivateKey::Generate();
  const absl::StatusOr<Certificate> next =
      MakeCa(key, trust->cluster_id, now - kBackdate, now + kCaLife);
  if (!next.ok()) return next.status();
  // First the key: one without a certificate means nothing.
  const absl::Status written = WriteTrustFile(directory, kNextCaKeyFile, key.ToPem());
  if (!written.ok()) return written;
  return WriteTrustFile(directory, kCaFile, ToPem({trust->ca(), *next}));
}

absl::Status IssueFromNew(const std::string& directory, WallTime now) {
  const absl::StatusOr<Trust> trust = LoadInPhase(directory, RotationPhase::kTrustBoth, now);
  if (!trust.ok()) return trust.status();
  // For those who know only the CA that signed so far: holders of tokens.
  absl::Status done = WriteTrustFile(directory, kFormerCoordinatorFile, trust->coordinator.ToPem());
  if (!done.ok()) return done;
  const std::string from = TrustFilePath(directory, kNextCaKeyFile);
  const std::string to = TrustFilePath(directory, kCaKeyFile);
  if (::rename(from.c_str(), to.c_str()) != 0) return ErrnoStatus(errno, from);
  done = SyncDirectory(directory);
  if (!done.ok()) return done;
  return RenewCoordinatorWhenDue(directory, now).status();
}

absl::Status DropFormer(const std::string& directory, WallTime now) {
  const absl::StatusOr<Trust> trust = LoadInPhase(directory, RotationPhase::kIssueNew, now);
  if (!trust.ok()) return trust.status();
  if (!IsSignedBy(trust->coordinator, trust->ca())) {
    return absl::FailedPreconditionError(fmt::format("{}: it is of the former authority still",
                                                     TrustFilePath(directory, kCoordinatorFile)));
  }
  const absl::Status written = WriteTrustFile(directory, kCaFile, trust->ca().ToPem());
  if (!written.ok()) return written;
  // One that stays means nothing.
  (void)::unlink(TrustFilePath(directory, kFormerCoordinatorFile).c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Member>> AwaitedMembers(const Trust& trust, TrustStore& store,
                                                   WallTime now) {
  std::vector<Member> awaited;
  if (trust.phase == RotationPhase::kSteady) return awaited;
  const absl::StatusOr<std::vector<Member>> members = store.ListMembers();
  if (!members.ok()) return members.status();
  for (const Member& member : *members) {
    if (member.revoked || member.not_after <= now) continue;
    if (trust.phase == RotationPhase::kTrustBoth) {
      // The admin's files are the coordinator's own.
      if (member.kind == IdentityKind::kAdmin && member.token_id.empty()) continue;
      const Certificate* next = NextOf(trust);
      if (next == nullptr || HasAuthority(member.authorities, next->SpkiSha256())) continue;
    } else {
      const auto issued = store.FindCertificate(member.serial);
      if (!issued.ok()) return issued.status();
      if (*issued) {
        const auto certificate = Certificate::FromDer((*issued)->der);
        if (certificate.ok() && IsSignedBy(*certificate, trust.ca())) continue;
      }
    }
    awaited.push_back(member);
  }
  return awaited;
}

std::string AuthoritiesOf(const std::vector<Certificate>& bundle) {
  std::vector<std::string> digests;
  for (const Certificate& ca : bundle) digests.push_back(ca.SpkiSha256());
  return AuthoritiesOf(std::move(digests));
}

std::string AuthoritiesOf(std::vector<std::string> digests) {
  std::sort(digests.begin(), digests.end());
  digests.erase(std::unique(digests.begin(), digests.end()), digests.end());
  return fmt::format("{}", fmt::join(digests, ""));
}

bool HasAuthority(std::string_view authorities, std::string_view digest) {
  for (size_t at = 0; at + kSha256Bytes <= authorities.size(); at += kSha256Bytes) {
    if (authorities.substr(at, kSha256Bytes) == digest) return true;
  }
  return false;
}

}  // namespace muster
