#include "coordinator/trust/trust_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/annotate.h"
#include "common/io/atomic_file.h"

namespace muster {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

}  // namespace

std::string TrustFilePath(const std::string& directory, std::string_view name) {
  return fmt::format("{}/{}", directory, name);
}

absl::Status WriteTrustFile(const std::string& directory, std::string_view name,
                            std::string_view bytes) {
  const std::string path = TrustFilePath(directory, name);
  const std::error_code error = WriteFileAtomically(path, bytes, 0600, Durability::kPowerLoss);
  return error ? ErrnoStatus(error.value(), path) : absl::OkStatus();
}

absl::StatusOr<std::string> ReadTrustFile(const std::string& directory, std::string_view name) {
  const std::string path = TrustFilePath(directory, name);
  std::string bytes;
  const std::error_code error = ReadFile(path, bytes, kMaxFileBytes);
  if (error) return ErrnoStatus(error.value(), path);
  return bytes;
}

absl::StatusOr<PrivateKey> ReadTrustKey(const std::string& directory, std::string_view name) {
  const std::string path = TrustFilePath(directory, name);
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path);
  if ((info.st_mode & 077) != 0) {
    return UnusableTrustFile(
        directory, name,
        fmt::format("others may read this key, its mode is {:o} (chmod 600 it, and "
                    "think about who may have read it)",
                    info.st_mode & 07777));
  }
  const absl::StatusOr<std::string> pem = ReadTrustFile(directory, name);
  if (!pem.ok()) return pem.status();
  absl::StatusOr<PrivateKey> key = PrivateKey::FromPem(*pem);
  if (!key.ok()) return UnusableTrustFile(directory, name, MessageOf(key.status()));
  return key;
}

absl::StatusOr<std::vector<Certificate>> ReadTrustCertificates(const std::string& directory,
                                                               std::string_view name) {
  const absl::StatusOr<std::string> pem = ReadTrustFile(directory, name);
  if (!pem.ok()) return pem.status();
  absl::StatusOr<std::vector<Certificate>> certificates = Certificate::ParseBundle(*pem);
  if (!certificates.ok()) {
    return UnusableTrustFile(directory, name, MessageOf(certificates.status()));
  }
  return certificates;
}

bool HasTrustFile(const std::string& directory, std::string_view name) {
  return ::access(TrustFilePath(directory, name).c_str(), F_OK) == 0;
}

absl::Status UnusableTrustFile(const std::string& directory, std::string_view name,
                               std::string_view why) {
  return absl::FailedPreconditionError(fmt::format("{}: {}", TrustFilePath(directory, name), why));
}

}  // namespace muster
