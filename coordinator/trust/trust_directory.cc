#include "coordinator/trust/trust_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/crypto/issuer.h"
#include "common/crypto/verify.h"
#include "common/io/atomic_file.h"
#include "common/io/unique_fd.h"
#include "coordinator/trust/trust_store.h"

namespace muster {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr char kClusterFile[] = "cluster";
constexpr char kHostsFile[] = "hosts";

std::string PathOf(const std::string& directory, std::string_view name) {
  return fmt::format("{}/{}", directory, name);
}

absl::Status WriteOne(const std::string& directory, std::string_view name, std::string_view bytes) {
  const std::string path = PathOf(directory, name);
  const std::error_code error = WriteFileAtomically(path, bytes, 0600, Durability::kPowerLoss);
  return error ? ErrnoStatus(error.value(), path) : absl::OkStatus();
}

absl::StatusOr<std::string> ReadOne(const std::string& directory, std::string_view name) {
  const std::string path = PathOf(directory, name);
  std::string bytes;
  const std::error_code error = ReadFile(path, bytes, kMaxFileBytes);
  if (error) return ErrnoStatus(error.value(), path);
  return bytes;
}

absl::Status Unusable(const std::string& directory, std::string_view name, std::string_view why) {
  return absl::FailedPreconditionError(fmt::format("{}: {}", PathOf(directory, name), why));
}

absl::StatusOr<PrivateKey> ReadKey(const std::string& directory, std::string_view name) {
  const std::string path = PathOf(directory, name);
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path);
  if ((info.st_mode & 077) != 0) {
    return Unusable(directory, name,
                    fmt::format("others may read this key, its mode is {:o} (chmod 600 it, and "
                                "think about who may have read it)",
                                info.st_mode & 07777));
  }
  const absl::StatusOr<std::string> pem = ReadOne(directory, name);
  if (!pem.ok()) return pem.status();
  absl::StatusOr<PrivateKey> key = PrivateKey::FromPem(*pem);
  if (!key.ok()) return Unusable(directory, name, MessageOf(key.status()));
  return key;
}

absl::StatusOr<std::vector<Certificate>> ReadCertificates(const std::string& directory,
                                                          std::string_view name) {
  const absl::StatusOr<std::string> pem = ReadOne(directory, name);
  if (!pem.ok()) return pem.status();
  absl::StatusOr<std::vector<Certificate>> certificates = Certificate::ParseBundle(*pem);
  if (!certificates.ok()) return Unusable(directory, name, MessageOf(certificates.status()));
  return certificates;
}

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
                                      WallTime now) {
  // A client too: coordinators may one day speak to each other.
  return {.identity = {cluster_id, IdentityKind::kCoordinator, ""},
          .hosts = std::move(hosts),
          .client = true,
          .server = true,
          .not_before = now - kBackdate,
          .not_after = now + kCoordinatorLife};
}

// The CA of the directory, with the one that signs in front.
struct Authority {
  std::string cluster_id;
  std::vector<Certificate> bundle;
  PrivateKey key;
};

absl::StatusOr<Authority> LoadAuthority(const std::string& directory, WallTime now) {
  struct stat info = {};
  if (::stat(PathOf(directory, kClusterFile).c_str(), &info) != 0 && errno == ENOENT) {
    return absl::NotFoundError(
        fmt::format("{}: there is no cluster (coordinator init makes one)", directory));
  }
  if (::stat(directory.c_str(), &info) != 0) return ErrnoStatus(errno, directory);
  if ((info.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(
        fmt::format("{}: others may look into it, its mode is {:o} (chmod 700 it)", directory,
                    info.st_mode & 07777));
  }
  const absl::StatusOr<std::string> cluster = ReadOne(directory, kClusterFile);
  if (!cluster.ok()) return cluster.status();
  const std::string cluster_id = cluster->substr(0, cluster->find('\n'));
  if (!IsClusterId(cluster_id)) return Unusable(directory, kClusterFile, "it has no cluster id");
  absl::StatusOr<PrivateKey> key = ReadKey(directory, "ca.key");
  if (!key.ok()) return key.status();
  absl::StatusOr<std::vector<Certificate>> bundle = ReadCertificates(directory, "ca.crt");
  if (!bundle.ok()) return bundle.status();
  for (const Certificate& ca : *bundle) {
    if (!ca.is_ca()) return Unusable(directory, "ca.crt", "it holds a certificate that is no CA's");
  }
  const auto signer = std::find_if(bundle->begin(), bundle->end(),
                                   [&](const Certificate& ca) { return ca.Holds(*key); });
  if (signer == bundle->end()) {
    return Unusable(directory, "ca.crt", "none of its certificates belongs to ca.key");
  }
  std::rotate(bundle->begin(), signer, signer + 1);
  const absl::Status valid =
      VerifyCertificate(bundle->front(), {bundle->front()}, CertificateUse::kAny, now);
  if (!valid.ok()) return Unusable(directory, "ca.crt", MessageOf(valid));
  return Authority{cluster_id, *std::move(bundle), *std::move(key)};
}

// Everything but the database, into an empty directory.
absl::StatusOr<Trust> MakeFiles(const std::string& directory, const TrustSetUp& set_up,
                                WallTime now) {
  const std::string cluster_id = NewClusterId();
  const PrivateKey ca_key = PrivateKey::Generate();
  const absl::StatusOr<Certificate> ca = MakeCa(ca_key, cluster_id, now - kBackdate, now + kCaLife);
  if (!ca.ok()) return ca.status();
  const PrivateKey coordinator_key = PrivateKey::Generate();
  const absl::StatusOr<Certificate> coordinator = Issue(
      *ca, ca_key, coordinator_key.public_key(), CoordinatorProfile(cluster_id, set_up.hosts, now));
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
  const std::pair<const char*, std::string> files[] = {{"ca.key", ca_key.ToPem()},
                                                       {"ca.crt", ca->ToPem()},
                                                       {"coordinator.key", coordinator_key.ToPem()},
                                                       {"coordinator.crt", coordinator->ToPem()},
                                                       {"admin.key", admin_key.ToPem()},
                                                       {"admin.crt", admin_certificate->ToPem()},
                                                       {kHostsFile, hosts},
                                                       {kClusterFile, cluster_id + "\n"}};
  for (const auto& [name, bytes] : files) {
    if (absl::Status written = WriteOne(directory, name, bytes); !written.ok()) return written;
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
  return Trust{cluster_id, {*ca}, ca_key, *coordinator, coordinator_key};
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
  chain.insert(chain.end(), ca_bundle.begin(), ca_bundle.end());
  return chain;
}

std::string TrustDatabasePath(const std::string& directory) {
  return PathOf(directory, "trust.db");
}
std::string CoordinatorKeyPath(const std::string& directory) {
  return PathOf(directory, "coordinator.key");
}

std::string CoordinatorCertificatePath(const std::string& directory) {
  return PathOf(directory, "coordinator.crt");
}

std::string CaPath(const std::string& directory) { return PathOf(directory, "ca.crt"); }

std::vector<std::string> HostsOf(const std::string& directory) {
  const absl::StatusOr<std::string> text = ReadOne(directory, kHostsFile);
  return text.ok() ? Lines(*text) : std::vector<std::string>();
}

std::string AdminKeyPath(const std::string& directory) { return PathOf(directory, "admin.key"); }
std::string AdminCertificatePath(const std::string& directory) {
  return PathOf(directory, "admin.crt");
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
  absl::StatusOr<PrivateKey> key = ReadKey(directory, "coordinator.key");
  if (!key.ok()) return key.status();
  const absl::StatusOr<std::vector<Certificate>> chain =
      ReadCertificates(directory, "coordinator.crt");
  if (!chain.ok()) return chain.status();
  const Certificate& coordinator = chain->front();
  if (!coordinator.Holds(*key)) {
    return Unusable(directory, "coordinator.crt", "it does not belong to coordinator.key");
  }
  const absl::Status valid =
      VerifyCertificate(coordinator, authority->bundle, CertificateUse::kServer, now);
  if (!valid.ok()) return Unusable(directory, "coordinator.crt", MessageOf(valid));
  const absl::StatusOr<Identity> identity = IdentityOf(coordinator);
  if (!identity.ok()) return Unusable(directory, "coordinator.crt", MessageOf(identity.status()));
  if (*identity != Identity{authority->cluster_id, IdentityKind::kCoordinator, ""}) {
    return Unusable(
        directory, "coordinator.crt",
        fmt::format("it is of {}, not of the coordinator of this cluster", ToUri(*identity)));
  }
  return Trust{authority->cluster_id, std::move(authority->bundle), std::move(authority->key),
               coordinator, *std::move(key)};
}

bool NeedsRenewal(const Certificate& certificate, WallTime now) {
  const auto life = certificate.not_after() - certificate.not_before();
  return certificate.not_after() - now < life / 3;
}

absl::StatusOr<bool> RenewCoordinatorWhenDue(const std::string& directory, WallTime now) {
  const absl::StatusOr<std::vector<Certificate>> chain =
      ReadCertificates(directory, "coordinator.crt");
  if (!chain.ok() || !NeedsRenewal(chain->front(), now)) return false;
  const absl::Status renewed = RenewCoordinatorCertificate(directory, now);
  if (!renewed.ok()) return renewed;
  return true;
}

absl::Status RenewCoordinatorCertificate(const std::string& directory, WallTime now) {
  const absl::StatusOr<Authority> authority = LoadAuthority(directory, now);
  if (!authority.ok()) return authority.status();
  const absl::StatusOr<PrivateKey> key = ReadKey(directory, "coordinator.key");
  if (!key.ok()) return key.status();
  const absl::StatusOr<std::string> hosts = ReadOne(directory, kHostsFile);
  if (!hosts.ok()) return hosts.status();
  const absl::StatusOr<Certificate> renewed =
      Issue(authority->bundle.front(), authority->key, key->public_key(),
            CoordinatorProfile(authority->cluster_id, Lines(*hosts), now));
  if (!renewed.ok()) return Unusable(directory, kHostsFile, MessageOf(renewed.status()));
  return WriteOne(directory, "coordinator.crt", renewed->ToPem());
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
