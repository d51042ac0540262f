#include "coordinator/trust/trust_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/crypto/issuer.h"
#include "common/crypto/verify.h"
#include "common/io/unique_fd.h"
#include "coordinator/trust/trust_files.h"
#include "coordinator/trust/trust_store.h"

namespace muster {
namespace {

constexpr char kClusterFile[] = "cluster";
constexpr char kHostsFile[] = "hosts";
constexpr char kSettingsFile[] = "settings";
constexpr std::string_view kLifeSetting = "certificate-life-seconds ";

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

CertificateProfile CoordinatorProfile(const std::string& cluster_id, std::vector<std::string> hosts,
                                      std::chrono::seconds life, WallTime now) {
  // A client too: coordinators may one day speak to each other.
  return {.identity = {cluster_id, IdentityKind::kCoordinator, ""},
          .hosts = std::move(hosts),
          .client = true,
          .server = true,
          .not_before = now - kBackdate,
          .not_after = now + life};
}

absl::Status CheckLife(std::chrono::seconds life) {
  if (life >= kMinCertificateLife && life <= kMaxCertificateLife) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "certificates can be good for {} seconds to {} days, not for {} seconds",
      kMinCertificateLife.count(), kMaxCertificateLife / std::chrono::hours(24), life.count()));
}

// The default where nothing is said.
absl::StatusOr<std::chrono::seconds> ReadLife(const std::string& directory) {
  if (!HasTrustFile(directory, kSettingsFile)) return kCertificateLife;
  const absl::StatusOr<std::string> text = ReadTrustFile(directory, kSettingsFile);
  if (!text.ok()) return text.status();
  for (const std::string& line : Lines(*text)) {
    if (!line.starts_with(kLifeSetting)) continue;
    int64_t seconds = 0;
    const char* end = line.data() + line.size();
    const auto [at, error] = std::from_chars(line.data() + kLifeSetting.size(), end, seconds);
    if (error != std::errc() || at != end) {
      return UnusableTrustFile(directory, kSettingsFile,
                               fmt::format("'{}': expected a number of seconds", line));
    }
    const absl::Status good = CheckLife(std::chrono::seconds(seconds));
    if (!good.ok()) return UnusableTrustFile(directory, kSettingsFile, MessageOf(good));
    return std::chrono::seconds(seconds);
  }
  return kCertificateLife;
}

// The CA of the directory, with the one that signs in front.
struct Authority {
  std::string cluster_id;
  std::vector<Certificate> bundle;
  PrivateKey key;
  RotationPhase phase = RotationPhase::kSteady;
};

// Told by the files alone, so that a change goes on wherever it was interrupted.
RotationPhase PhaseOf(const std::string& directory, const std::vector<Certificate>& bundle) {
  if (bundle.size() == 1) return RotationPhase::kSteady;
  const absl::StatusOr<PrivateKey> next = ReadTrustKey(directory, kNextCaKeyFile);
  const bool waits = next.ok() && std::any_of(bundle.begin() + 1, bundle.end(),
                                              [&](const auto& ca) { return ca.Holds(*next); });
  return waits ? RotationPhase::kTrustBoth : RotationPhase::kIssueNew;
}

// The coordinator's certificates of other authorities, as far as they are good.
std::vector<Certificate> FormerCertificates(const std::string& directory, const PrivateKey& key,
                                            const std::vector<Certificate>& bundle, WallTime now) {
  std::vector<Certificate> found;
  if (!HasTrustFile(directory, kFormerCoordinatorFile)) return found;
  const auto former = ReadTrustCertificates(directory, kFormerCoordinatorFile);
  if (!former.ok()) return found;
  for (const Certificate& certificate : *former) {
    if (certificate.Holds(key) &&
        VerifyCertificate(certificate, bundle, CertificateUse::kServer, now).ok()) {
      found.push_back(certificate);
    }
  }
  return found;
}

absl::StatusOr<Authority> LoadAuthority(const std::string& directory, WallTime now) {
  struct stat info = {};
  if (::stat(TrustFilePath(directory, kClusterFile).c_str(), &info) != 0 && errno == ENOENT) {
    return absl::NotFoundError(
        fmt::format("{}: there is no cluster (coordinator init makes one)", directory));
  }
  if (::stat(directory.c_str(), &info) != 0) return ErrnoStatus(errno, directory);
  if ((info.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(
        fmt::format("{}: others may look into it, its mode is {:o} (chmod 700 it)", directory,
                    info.st_mode & 07777));
  }
  const absl::StatusOr<std::string> cluster = ReadTrustFile(directory, kClusterFile);
  if (!cluster.ok()) return cluster.status();
  const std::string cluster_id = cluster->substr(0, cluster->find('\n'));
  if (!IsClusterId(cluster_id))
    return UnusableTrustFile(directory, kClusterFile, "it has no cluster id");
  absl::StatusOr<PrivateKey> key = ReadTrustKey(directory, "ca.key");
  if (!key.ok()) return key.status();
  absl::StatusOr<std::vector<Certificate>> bundle = ReadTrustCertificates(directory, "ca.crt");
  if (!bundle.ok()) return bundle.status();
  for (const Certificate& ca : *bundle) {
    if (!ca.is_ca())
      return UnusableTrustFile(directory, "ca.crt", "it holds a certificate that is no CA's");
  }
  const auto signer = std::find_if(bundle->begin(), bundle->end(),
                                   [&](const Certificate& ca) { return ca.Holds(*key); });
  if (signer == bundle->end()) {
    return UnusableTrustFile(directory, "ca.crt", "none of its certificates belongs to ca.key");
  }
  std::rotate(bundle->begin(), signer, signer + 1);
  const absl::Status valid =
      VerifyCertificate(bundle->front(), {bundle->front()}, CertificateUse::kAny, now);
  if (!valid.ok()) return UnusableTrustFile(directory, "ca.crt", MessageOf(valid));
  const RotationPhase phase = PhaseOf(directory, *bundle);
  return Authority{cluster_id, *std::move(bundle), *std::move(key), phase};
}

// Everything but the database, into an empty directory.
absl::StatusOr<Trust> MakeFiles(const std::string& directory, const TrustSetUp& set_up,
                                WallTime now) {
  if (absl::Status good = CheckLife(set_up.certificate_life); !good.ok()) return good;
  const std::string cluster_id = NewClusterId();
  const PrivateKey ca_key = PrivateKey::Generate();
  const absl::StatusOr<Certificate> ca = MakeCa(ca_key, cluster_id, now - kBackdate, now + kCaLife);
  if (!ca.ok()) return ca.status();
  const PrivateKey coordinator_key = PrivateKey::Generate();
  const absl::StatusOr<Certificate> coordinator =
      Issue(*ca, ca_key, coordinator_key.public_key(),
            CoordinatorProfile(cluster_id, set_up.hosts, set_up.certificate_life, now));
  if (!coordinator.ok()) return coordinator.status();
  const PrivateKey admin_key = PrivateKey::Generate();
  const Identity admin{cluster_id, IdentityKind::kAdmin, set_up.admin_name};
  const absl::StatusOr<Certificate> admin_certificate = Issue(*ca, ca_key, admin_key.public_key(),
                                                              {.identity = admin,
                                                               .client = true,
                                                               .not_before = now - kBackdate,
                                                               .not_after = now + kAdminLife});
  if (!admin_certificate.ok()) return admin_certificate.status();
  std::string hosts;
  for (const std::string& host : set_up.hosts) hosts += host + "\n";
  const std::string settings = fmt::format("{}{}\n", kLifeSetting, set_up.certificate_life.count());
  const std::pair<const char*, std::string> files[] = {{"ca.key", ca_key.ToPem()},
                                                       {"ca.crt", ca->ToPem()},
                                                       {"coordinator.key", coordinator_key.ToPem()},
                                                       {"coordinator.crt", coordinator->ToPem()},
                                                       {"admin.key", admin_key.ToPem()},
                                                       {"admin.crt", admin_certificate->ToPem()},
                                                       {kHostsFile, hosts},
                                                       {kSettingsFile, settings},
                                                       {kClusterFile, cluster_id + "\n"}};
  for (const auto& [name, bytes] : files) {
    if (absl::Status written = WriteTrustFile(directory, name, bytes); !written.ok())
      return written;
  }
  const auto store = TrustStore::Open(TrustDatabasePath(directory));
  if (!store.ok()) return store.status();
  const absl::Status added = (*store)->AddMember({.kind = admin.kind,
                                                  .name = admin.name,
                                                  .spki_sha256 = admin_key.SpkiSha256(),
                                                  .serial = admin_certificate->serial(),
                                                  .not_after = admin_certificate->not_after(),
                                                  .joined_at = now},
                                                 RecordOf(*admin_certificate, admin, now));
  if (!added.ok()) return added;
  return Trust{
      cluster_id, {*ca}, ca_key, *coordinator, coordinator_key, {}, set_up.certificate_life};
}

// So that the name of `path` survives a power loss.
absl::Status SyncParent(const std::string& path) {
  const std::string parent = std::filesystem::absolute(path).parent_path().string();
  const UniqueFd fd(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return ErrnoStatus(errno, parent);
  return absl::OkStatus();
}

// Fails with EEXIST or ENOTEMPTY when there is something at `to`.
int RenameToFree(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  // Not every file system knows the flag. A directory replaces nothing but an empty one.
  if (errno == EINVAL && ::rename(from.c_str(), to.c_str()) == 0) return 0;
  return errno;
}

}  // namespace

std::vector<Certificate> Trust::ServerChain() const {
  std::vector<Certificate> chain = {coordinator};
  chain.insert(chain.end(), coordinator_former.begin(), coordinator_former.end());
  chain.insert(chain.end(), ca_bundle.begin(), ca_bundle.end());
  return chain;
}

std::string TrustDatabasePath(const std::string& directory) {
  return TrustFilePath(directory, "trust.db");
}
std::string CoordinatorKeyPath(const std::string& directory) {
  return TrustFilePath(directory, "coordinator.key");
}

std::string CoordinatorCertificatePath(const std::string& directory) {
  return TrustFilePath(directory, "coordinator.crt");
}

std::string CaPath(const std::string& directory) { return TrustFilePath(directory, "ca.crt"); }

std::vector<std::string> HostsOf(const std::string& directory) {
  const absl::StatusOr<std::string> text = ReadTrustFile(directory, kHostsFile);
  return text.ok() ? Lines(*text) : std::vector<std::string>();
}

std::string AdminKeyPath(const std::string& directory) {
  return TrustFilePath(directory, "admin.key");
}
std::string AdminCertificatePath(const std::string& directory) {
  return TrustFilePath(directory, "admin.crt");
}

absl::StatusOr<Trust> InitTrust(const std::string& directory, const TrustSetUp& set_up,
                                WallTime now) {
  struct stat info = {};
  const auto exists = [&] {
    return absl::AlreadyExistsError(fmt::format(
        "{}: there is a cluster already, or something else (it is left as it is; to begin a new "
        "cluster move it away, and every node must join again)",
        directory));
  };
  if (::lstat(directory.c_str(), &info) == 0) return exists();
  std::string temporary = directory + ".new-XXXXXX";
  if (::mkdtemp(temporary.data()) == nullptr) return ErrnoStatus(errno, temporary);
  absl::StatusOr<Trust> made = MakeFiles(temporary, set_up, now);
  if (made.ok()) {
    const int error = RenameToFree(temporary, directory);
    if (error == EEXIST || error == ENOTEMPTY) {
      made = exists();
    } else if (error != 0) {
      made = ErrnoStatus(error, directory);
    }
  }
  if (!made.ok()) {
    std::error_code ignored;
    std::filesystem::remove_all(temporary, ignored);
    return made;
  }
  const absl::Status synced = SyncParent(directory);
  if (!synced.ok()) return synced;
  return made;
}

absl::StatusOr<Trust> LoadTrust(const std::string& directory, WallTime now) {
  absl::StatusOr<Authority> authority = LoadAuthority(directory, now);
  if (!authority.ok()) return authority.status();
  absl::StatusOr<PrivateKey> key = ReadTrustKey(directory, "coordinator.key");
  if (!key.ok()) return key.status();
  const absl::StatusOr<std::vector<Certificate>> chain =
      ReadTrustCertificates(directory, "coordinator.crt");
  if (!chain.ok()) return chain.status();
  const Certificate& coordinator = chain->front();
  if (!coordinator.Holds(*key)) {
    return UnusableTrustFile(directory, "coordinator.crt", "it does not belong to coordinator.key");
  }
  const absl::Status valid =
      VerifyCertificate(coordinator, authority->bundle, CertificateUse::kServer, now);
  if (!valid.ok()) return UnusableTrustFile(directory, "coordinator.crt", MessageOf(valid));
  const absl::StatusOr<Identity> identity = IdentityOf(coordinator);
  if (!identity.ok())
    return UnusableTrustFile(directory, "coordinator.crt", MessageOf(identity.status()));
  if (*identity != Identity{authority->cluster_id, IdentityKind::kCoordinator, ""}) {
    return UnusableTrustFile(
        directory, "coordinator.crt",
        fmt::format("it is of {}, not of the coordinator of this cluster", ToUri(*identity)));
  }
  const absl::StatusOr<std::chrono::seconds> life = ReadLife(directory);
  if (!life.ok()) return life.status();
  std::vector<Certificate> former = FormerCertificates(directory, *key, authority->bundle, now);
  return Trust{authority->cluster_id,
               std::move(authority->bundle),
               std::move(authority->key),
               coordinator,
               *std::move(key),
               std::move(former),
               *life,
               authority->phase};
}

bool NeedsRenewal(const Certificate& certificate, WallTime now) {
  const auto life = certificate.not_after() - IssuedAt(certificate);
  return certificate.not_after() - now < life / 3;
}

absl::StatusOr<bool> RenewCoordinatorWhenDue(const std::string& directory, WallTime now) {
  const absl::StatusOr<std::vector<Certificate>> chain =
      ReadTrustCertificates(directory, kCoordinatorFile);
  if (!chain.ok()) return false;
  if (!NeedsRenewal(chain->front(), now)) {
    const absl::StatusOr<Authority> authority = LoadAuthority(directory, now);
    if (!authority.ok() || IsSignedBy(chain->front(), authority->bundle.front())) return false;
  }
  const absl::Status renewed = RenewCoordinatorCertificate(directory, now);
  if (!renewed.ok()) return renewed;
  return true;
}

absl::Status RenewCoordinatorCertificate(const std::string& directory, WallTime now) {
  const absl::StatusOr<Authority> authority = LoadAuthority(directory, now);
  if (!authority.ok()) return authority.status();
  const absl::StatusOr<PrivateKey> key = ReadTrustKey(directory, "coordinator.key");
  if (!key.ok()) return key.status();
  const absl::StatusOr<std::string> hosts = ReadTrustFile(directory, kHostsFile);
  if (!hosts.ok()) return hosts.status();
  const absl::StatusOr<std::chrono::seconds> life = ReadLife(directory);
  if (!life.ok()) return life.status();
  const absl::StatusOr<Certificate> renewed =
      Issue(authority->bundle.front(), authority->key, key->public_key(),
            CoordinatorProfile(authority->cluster_id, Lines(*hosts), *life, now));
  if (!renewed.ok()) return UnusableTrustFile(directory, kHostsFile, MessageOf(renewed.status()));
  return WriteTrustFile(directory, kCoordinatorFile, renewed->ToPem());
}

absl::StatusOr<bool> RenewAdminWhenDue(const std::string& directory, const Trust& trust,
                                       TrustStore& store, WallTime now) {
  // Whoever has taken the files elsewhere looks after them.
  const auto key = ReadTrustKey(directory, "admin.key");
  const auto before = ReadTrustCertificates(directory, "admin.crt");
  if (!key.ok() || !before.ok()) return false;
  const absl::StatusOr<Identity> identity = IdentityOf(before->front());
  if (!identity.ok()) return false;
  const absl::StatusOr<std::optional<Member>> member =
      store.FindMember(identity->kind, identity->name);
  if (!member.ok()) return member.status();
  if (!*member || (*member)->revoked || (*member)->spki_sha256 != key->SpkiSha256()) return false;
  const bool current = (*member)->serial == before->front().serial();
  if (current && !NeedsRenewal(before->front(), now) && IsSignedBy(before->front(), trust.ca())) {
    return false;
  }
  const absl::StatusOr<Certificate> renewed = Issue(trust.ca(), trust.ca_key, key->public_key(),
                                                    {.identity = *identity,
                                                     .client = true,
                                                     .not_before = now - kBackdate,
                                                     .not_after = now + kAdminLife});
  if (!renewed.ok()) return renewed.status();
  absl::Status done = store.Renew(RecordOf(*renewed, *identity, now), (*member)->serial, now);
  if (done.ok()) done = WriteTrustFile(directory, "admin.crt", renewed->ToPem());
  if (!done.ok()) return done;
  return true;
}

IssuedCertificate RecordOf(const Certificate& certificate, const Identity& identity, WallTime now) {
  return {.serial = certificate.serial(),
          .kind = identity.kind,
          .name = identity.name,
          .spki_sha256 = certificate.SpkiSha256(),
          .issued_at = now,
          .not_after = certificate.not_after(),
          .der = certificate.ToDer()};
}

}  // namespace muster
