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

// The first line of a mark of this boot; empty, with errno, when the boot is not known.
std::string FirstLine() {
  const UniqueFd fd(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (!fd) return "";
  const std::string boot = ReadSome(fd.get());
  const size_t end = boot.find('\n');
  if (end == std::string::npos || end == 0) return "";
  return std::string(kHeader) + boot.substr(0, end) + "\n";
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
  const std::string first = FirstLine();
  if (first.empty()) return name + ": this boot has no id: " + ErrnoText(errno);
  const std::string text = first + Printable(reason, 600) + "\n";
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const UniqueFd fd(::openat(directory, draft.c_str(), kFlags, 0644));
  if (!fd) return name + ": " + ErrnoText(errno);
  const ssize_t written = ::write(fd.get(), text.data(), text.size());
  // Whatever the umask: every user who takes leases here must be able to read it.
  if (written == static_cast<ssize_t>(text.size()) && ::fchmod(fd.get(), 0644) == 0 &&
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
  const std::string prefix = lease + std::string(kInfix);
  // What cannot be looked at withholds: two jobs on one card are worse than none.
  const auto unknown = [](const std::string& file, int error) -> Withheld {
    return {file, "its mark cannot be read: " + ErrnoText(error)};
  };
  // A description of its own: reading moves its position.
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return unknown(prefix + "*", errno);
  const std::unique_ptr<DIR, CloseDirectory> names(::fdopendir(copy));
  if (!names) {
    const int error = errno;
    ::close(copy);
    return unknown(prefix + "*", error);
  }
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(names.get());
    if (entry == nullptr) return errno == 0 ? Withheld() : unknown(prefix + "*", errno);
    const std::string name = entry->d_name;
    if (!name.starts_with(prefix)) continue;
    const UniqueFd fd(
        ::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    // Taken away meanwhile, or no file.
    if (!fd && (errno == ENOENT || errno == ELOOP || errno == ENXIO)) continue;
    struct stat info = {};
    if (!fd || ::fstat(fd.get(), &info) != 0) return unknown(Printable(name), errno);
    if (!S_ISREG(info.st_mode)) continue;
    const std::string first = FirstLine();
    if (first.empty()) return unknown(Printable(name), errno);
    const std::string text = ReadSome(fd.get());
    if (text.starts_with(first)) {
      const std::string reason = text.substr(first.size());
      return {Printable(name), Printable(reason.substr(0, reason.find('\n')), 600)};
    }
    // Of an earlier boot; anything else is not ours to remove.
    if (text.starts_with(kHeader)) (void)::unlinkat(directory, name.c_str(), 0);
  }
}

}  // namespace muster::shim
