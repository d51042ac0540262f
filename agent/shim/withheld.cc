#include "agent/shim/withheld.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>

#include "agent/shim/text.h"
#include "common/io/unique_fd.h"

namespace muster::shim {
namespace {

constexpr std::string_view kInfix = ".withheld.";
// In front of the boot in the first line.
constexpr std::string_view kHeader = "withheld in boot ";

std::string ReadSome(int fd) {
  char text[1024];
  const ssize_t count = ::read(fd, text, sizeof(text));
  return count > 0 ? std::string(text, static_cast<size_t>(count)) : "";
}

// The first line of a mark of this boot.
std::string FirstLine() {
  const UniqueFd fd(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  const std::string boot = fd ? ReadSome(fd.get()) : "";
  return std::string(kHeader) + boot.substr(0, boot.find('\n')) + "\n";
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

}  // namespace

std::string MarkWithheld(int directory, const std::string& lease, const std::string& attempt,
                         const std::string& reason) {
  const std::string name = lease + std::string(kInfix) + attempt;
  // Whole or not at all: a mark that cannot be read would count for nothing.
  const std::string draft = name + ".new." + std::to_string(::getpid());
  const std::string text = FirstLine() + Printable(reason, 600) + "\n";
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const UniqueFd fd(::openat(directory, draft.c_str(), kFlags, 0644));
  if (!fd) return name + ": " + ErrnoText(errno);
  const ssize_t written = ::write(fd.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size()) &&
      ::renameat(directory, draft.c_str(), directory, name.c_str()) == 0) {
    return "";
  }
  const int error = written >= 0 && written < static_cast<ssize_t>(text.size()) ? ENOSPC : errno;
  (void)::unlinkat(directory, draft.c_str(), 0);
  return name + ": " + ErrnoText(error);
}

void UnmarkWithheld(int directory, const std::string& lease, const std::string& attempt) {
  (void)::unlinkat(directory, (lease + std::string(kInfix) + attempt).c_str(), 0);
}

Withheld FindWithheld(int directory, const std::string& lease) {
  // A description of its own: reading moves its position.
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return {};
  const std::unique_ptr<DIR, CloseDirectory> names(::fdopendir(copy));
  if (!names) {
    ::close(copy);
    return {};
  }
  const std::string prefix = lease + std::string(kInfix);
  const std::string first = FirstLine();
  while (const dirent* const entry = ::readdir(names.get())) {
    const std::string name = entry->d_name;
    if (!name.starts_with(prefix)) continue;
    const UniqueFd fd(
        ::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info = {};
    if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const std::string text = ReadSome(fd.get());
    if (text.starts_with(first)) {
      const std::string reason = text.substr(first.size());
      return {name, Printable(reason.substr(0, reason.find('\n')), 600)};
    }
    // Of an earlier boot; anything else is not ours to remove.
    if (text.starts_with(kHeader)) (void)::unlinkat(directory, name.c_str(), 0);
  }
  return {};
}

}  // namespace muster::shim
