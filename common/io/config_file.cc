#include "common/io/config_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/annotate.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace

std::string FindConfigFile(const std::string& name, const VariableLookup& variable) {
  if (const std::string given = variable("MUSTER_CONFIG_DIR"); !given.empty()) {
    const std::string path = given + "/" + name;
    return Exists(path) ? path : "";
  }
  if (::geteuid() != 0) {
    std::string base = variable("XDG_CONFIG_HOME");
    if (!base.starts_with("/")) base = variable("HOME") + "/.config";
    const std::string path = base + "/muster/" + name;
    if (path.front() == '/' && Exists(path)) return path;
  }
  const std::string path = "/etc/muster/" + name;
  return Exists(path) ? path : "";
}

absl::StatusOr<std::string> ReadConfigFile(const std::string& path, size_t max_bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  while (fd) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    text.append(buffer, static_cast<size_t>(got));
    // One byte more than allowed is enough for the parser to say so.
    if (got == 0 || text.size() > max_bytes) return text;
  }
  return absl::InvalidArgumentError(ErrnoStatus(errno, "cannot be read").message());
}

}  // namespace muster
