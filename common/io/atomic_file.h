// Small files that are replaced as a whole: a reader sees the old bytes or the new, never a
// mixture, and neither does the machine after a crash. Any thread; two writers of one path do no
// harm, one of them wins.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

namespace muster {

// Whether the new file must survive a power loss (two fsync calls) or only a crash of the program.
enum class Durability { kProcessCrash, kPowerLoss };

// Replaces or creates `path` by writing a temporary file beside it and renaming. The temporary file
// is removed when something fails.
[[nodiscard]] std::error_code WriteFileAtomically(const std::string& path, std::string_view bytes,
                                                  mode_t mode, Durability durability);

// Reads a whole file. More than `max_bytes`: EFBIG.
[[nodiscard]] std::error_code ReadFile(const std::string& path, std::string& bytes,
                                       size_t max_bytes = size_t{64} << 20);
// The same for an open file, from where it stands.
[[nodiscard]] std::error_code ReadFile(int fd, std::string& bytes, size_t max_bytes);

}  // namespace muster
