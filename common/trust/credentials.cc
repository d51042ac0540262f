#include "common/trust/credentials.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

#include "common/base/annotate.h"
#include "common/crypto/verify.h"
#include "common/io/atomic_file.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr std::string_view kGeneration = "gen-";
constexpr char kCurrent[] = "/current";
constexpr char kPending[] = "/pending.pem";
// A set can be replaced while it is read; that it happens this often in a row is no accident.
constexpr int kMaxTries = 5;

absl::Status Unusable(const std::string& path, std::string_view why) {
  return absl::FailedPreconditionError(fmt::format("{}: {}", path, why));
}

absl::Status WriteOne(const std::string& path, std::string_view bytes, mode_t mode) {
  const std::error_code error = WriteFileAtomically(path, bytes, mode, Durability::kPowerLoss);
  return error ? ErrnoStatus(error.value(), path) : absl::OkStatus();
}

absl::StatusOr<std::string> ReadOne(const std::string& path) {
  std::string bytes;
  const std::error_code error = ReadFile(path, bytes, kMaxFileBytes);
  if (error) return ErrnoStatus(error.value(), path);
  return bytes;
}

absl::StatusOr<PrivateKey> ReadKey(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path);
  if ((info.st_mode & 077) != 0) {
    return Unusable(path, fmt::format("others may read this key, its mode is {:o} (chmod 600 it, "
                                      "and think about who may have read it)",
                                      info.st_mode & 07777));
  }
  const absl::StatusOr<std::string> pem = ReadOne(path);
  if (!pem.ok()) return pem.status();
  absl::StatusOr<PrivateKey> key = PrivateKey::FromPem(*pem);
  if (!key.ok()) return Unusable(path, MessageOf(key.status()));
  return key;
}

std::string ClusterText(const Credentials& credentials) {
  std::string text = fmt::format("cluster {}\nidentity {}\n", credentials.identity.cluster_id,
                                 ToUri(credentials.identity));
  for (const std::string& coordinator : credentials.coordinators) {
    text += fmt::format("coordinator {}\n", coordinator);
  }
  return text;
}

// Values of all lines of `text` that begin with `word`.
std::vector<std::string> FactsOf(std::string_view text, std::string_view word) {
  std::vector<std::string> facts;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.size() > word.size() && line.starts_with(word) && line[word.size()] == ' ') {
      facts.emplace_back(line.substr(word.size() + 1));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return facts;
}

absl::StatusOr<Credentials> LoadSet(const std::string& directory) {
  absl::StatusOr<PrivateKey> key = ReadKey(directory + "/key.pem");
  if (!key.ok()) return key.status();
  const std::string certificate_path = directory + "/cert.pem";
  const absl::StatusOr<std::string> certificate_pem = ReadOne(certificate_path);
  if (!certificate_pem.ok()) return certificate_pem.status();
  absl::StatusOr<Certificate> certificate = Certificate::FromPem(*certificate_pem);
  if (!certificate.ok()) return Unusable(certificate_path, MessageOf(certificate.status()));
  const std::string ca_path = directory + "/ca.pem";
  const absl::StatusOr<std::string> ca_pem = ReadOne(ca_path);
  if (!ca_pem.ok()) return ca_pem.status();
  absl::StatusOr<std::vector<Certificate>> bundle = Certificate::ParseBundle(*ca_pem);
  if (!bundle.ok()) return Unusable(ca_path, MessageOf(bundle.status()));
  const std::string cluster_path = directory + "/cluster";
  const absl::StatusOr<std::string> cluster = ReadOne(cluster_path);
  if (!cluster.ok()) return cluster.status();
  const std::vector<std::string> identities = FactsOf(*cluster, "identity");
  absl::StatusOr<Identity> identity =
      ParseIdentity(identities.size() == 1 ? identities.front() : std::string());
  if (!identity.ok()) return Unusable(cluster_path, MessageOf(identity.status()));
  Credentials credentials{*std::move(key), *std::move(certificate), *std::move(bundle),
                          *std::move(identity), FactsOf(*cluster, "coordinator")};
  if (absl::Status fits = CheckCredentials(credentials); !fits.ok()) {
    return Unusable(directory, MessageOf(fits));
  }
  return credentials;
}

std::optional<uint64_t> GenerationOf(std::string_view name) {
  if (!name.starts_with(kGeneration)) return std::nullopt;
  name.remove_prefix(kGeneration.size());
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

std::vector<uint64_t> GenerationsIn(const std::string& path) {
  std::vector<uint64_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const auto generation = GenerationOf(entry.path().filename().string());
    if (generation) found.push_back(*generation);
  }
  return found;
}

}  // namespace

absl::Status CheckCredentials(const Credentials& credentials) {
  if (!credentials.certificate.Holds(credentials.key)) {
    return absl::FailedPreconditionError("the certificate does not belong to the key");
  }
  const absl::StatusOr<Identity> identity = IdentityOf(credentials.certificate);
  if (!identity.ok()) return absl::FailedPreconditionError(identity.status().message());
  if (*identity != credentials.identity) {
    return absl::FailedPreconditionError(fmt::format(
        "the certificate is of {}, expected {}", ToUri(*identity), ToUri(credentials.identity)));
  }
  const absl::Status signed_by = VerifyCertificate(credentials.certificate, credentials.ca_bundle,
                                                   CertificateUse::kClient, std::nullopt);
  return signed_by.ok() ? signed_by : absl::FailedPreconditionError(signed_by.message());
}

absl::Status CredentialsDirectory::MakeDirectory() const {
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoStatus(errno, path_);
  return absl::OkStatus();
}

absl::StatusOr<Credentials> CredentialsDirectory::Load() const {
  absl::StatusOr<Credentials> loaded = absl::UnavailableError(path_);
  for (int i = 0; i < kMaxTries; ++i) {
    // All files of one set, whatever becomes current meanwhile.
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(path_ + kCurrent, error).string();
    if (error == std::errc::no_such_file_or_directory) {
      return absl::NotFoundError(fmt::format(
          "{}: not a member of a cluster (a token and `agent join` make it one)", path_));
    }
    if (error) return ErrnoStatus(error.value(), path_ + kCurrent);
    loaded = LoadSet(path_ + "/" + target);
    if (!absl::IsNotFound(loaded.status())) return loaded;
  }
  return Unusable(path_ + kCurrent,
                  fmt::format("part of it is missing: {}", MessageOf(loaded.status())));
}

absl::Status CredentialsDirectory::Install(const Credentials& credentials) const {
  if (absl::Status fits = CheckCredentials(credentials); !fits.ok()) return fits;
  if (absl::Status made = MakeDirectory(); !made.ok()) return made;
  const UniqueFd directory(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || ::flock(directory.get(), LOCK_EX) != 0) return ErrnoStatus(errno, path_);
  const std::vector<uint64_t> before = GenerationsIn(path_);
  uint64_t next = 1;
  for (const uint64_t generation : before) next = std::max(next, generation + 1);
  std::error_code error;
  const auto current =
      GenerationOf(std::filesystem::read_symlink(path_ + kCurrent, error).filename().string());
  const std::string name = fmt::format("{}{}", kGeneration, next);
  const std::string set = path_ + "/" + name;
  if (::mkdir(set.c_str(), 0700) != 0) return ErrnoStatus(errno, set);
  const std::tuple<const char*, std::string, mode_t> files[] = {
      {"/key.pem", credentials.key.ToPem(), 0600},
      {"/cert.pem", credentials.certificate.ToPem(), 0644},
      {"/ca.pem", ToPem(credentials.ca_bundle), 0644},
      {"/cluster", ClusterText(credentials), 0644}};
  for (const auto& [file, bytes, mode] : files) {
    if (absl::Status written = WriteOne(set + file, bytes, mode); !written.ok()) return written;
  }
  const std::string link = path_ + kCurrent + std::string(".new");
  (void)::unlink(link.c_str());
  if (::symlink(name.c_str(), link.c_str()) != 0) return ErrnoStatus(errno, link);
  // The set must be on the disk before its name is.
  if (::fsync(directory.get()) != 0) return ErrnoStatus(errno, path_);
  if (::rename(link.c_str(), (path_ + kCurrent).c_str()) != 0) return ErrnoStatus(errno, link);
  if (::fsync(directory.get()) != 0) return ErrnoStatus(errno, path_);
  (void)::unlink((path_ + kPending).c_str());
  for (const uint64_t generation : before) {
    if (current && generation == *current) continue;
    // What cannot be removed does no harm.
    std::filesystem::remove_all(fmt::format("{}/{}{}", path_, kGeneration, generation), error);
  }
  return absl::OkStatus();
}

absl::StatusOr<PrivateKey> CredentialsDirectory::PendingKey() const {
  if (absl::Status made = MakeDirectory(); !made.ok()) return made;
  absl::StatusOr<PrivateKey> key = ReadKey(path_ + kPending);
  // One that cannot be used is of no use to anybody, and one that became current is used up:
  // whoever installed it was killed before it could forget it.
  if (key.ok()) {
    const absl::StatusOr<PrivateKey> current = ReadKey(KeyPath());
    if (!current.ok() || current->SpkiSha256() != key->SpkiSha256()) return key;
  }
  key = PrivateKey::Generate();
  absl::Status written = WriteOne(path_ + kPending, key->ToPem(), 0600);
  if (!written.ok()) return written;
  return key;
}

}  // namespace muster
