// Reading and writing of the files of a trust directory, with errors that name them. Not for others
// than coordinator/trust.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/crypto/certificate.h"
#include "common/crypto/private_key.h"

namespace muster {

inline constexpr char kCaKeyFile[] = "ca.key";
inline constexpr char kCaFile[] = "ca.crt";
// The key of the authority that will sign next; only while everybody learns to trust it.
inline constexpr char kNextCaKeyFile[] = "ca-next.key";
inline constexpr char kCoordinatorFile[] = "coordinator.crt";
// The coordinator's certificate of the authority that signed before, for its key.
inline constexpr char kFormerCoordinatorFile[] = "coordinator-former.crt";

std::string TrustFilePath(const std::string& directory, std::string_view name);
// Mode 0600, on the disk when it returns.
absl::Status WriteTrustFile(const std::string& directory, std::string_view name,
                            std::string_view bytes);
absl::StatusOr<std::string> ReadTrustFile(const std::string& directory, std::string_view name);
// Also refuses a key that others may read.
absl::StatusOr<PrivateKey> ReadTrustKey(const std::string& directory, std::string_view name);
absl::StatusOr<std::vector<Certificate>> ReadTrustCertificates(const std::string& directory,
                                                               std::string_view name);
bool HasTrustFile(const std::string& directory, std::string_view name);
// FAILED_PRECONDITION: "<path>: <why>".
absl::Status UnusableTrustFile(const std::string& directory, std::string_view name,
                               std::string_view why);

}  // namespace muster
