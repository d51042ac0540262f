#include "common/io/file_holders.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "common/base/utf8.h"
#include "common/io/atomic_file.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

using Steady = std::chrono::steady_clock;

constexpr size_t kCommandBytes = 96;
constexpr size_t kEnvironmentBytes = size_t{1} << 20;
constexpr size_t kPasswdBytes = size_t{4} << 20;
// Descriptors between two looks at the clock.
constexpr size_t kLookEvery = 256;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

struct Wanted {
  std::string path;
  std::string_view name;
  struct statx info = {};
  bool known = false;
};

std::string_view NameOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// What the kernel knows already: whoever serves the file, a machine that is away or a program of
// some user, is not asked.
bool Identify(int directory, const char* name, struct statx& info) {
  return ::statx(directory, name, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &info) == 0;
}

bool IsSameFile(const struct statx& a, const struct statx& b) {
  if ((S_ISCHR(a.stx_mode) && S_ISCHR(b.stx_mode)) ||
      (S_ISBLK(a.stx_mode) && S_ISBLK(b.stx_mode))) {
    return a.stx_rdev_major == b.stx_rdev_major && a.stx_rdev_minor == b.stx_rdev_minor;
  }
  return a.stx_dev_major == b.stx_dev_major && a.stx_dev_minor == b.stx_dev_minor &&
         a.stx_ino == b.stx_ino;
}

// The start of a file; what cannot be read is empty.
std::string ReadStart(const std::string& path, size_t most) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text;
  if (!fd) return text;
  text.resize(most);
  size_t size = 0;
  for (ssize_t got = 1; got > 0 && size < most;) {
    got = ::read(fd.get(), text.data() + size, most - size);
    if (got > 0) size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

std::string Shown(std::string text) {
  while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  // Any process may call itself anything, and the text may be cut.
  return ValidUtf8(std::move(text));
}

std::string CommandOf(const std::string& process) {
  std::string line = Shown(ReadStart(process + "/cmdline", kCommandBytes));
  return line.empty() ? Shown(ReadStart(process + "/comm", kCommandBytes)) : line;
}

std::string JobOf(const std::string& process) {
  constexpr std::string_view kName = "MUSTER_JOB_ID=";
  const std::string environment = ReadStart(process + "/environ", kEnvironmentBytes);
  for (size_t at = 0; at < environment.size();) {
    const size_t end = std::min(environment.find('\0', at), environment.size());
    const std::string_view pair = std::string_view(environment).substr(at, end - at);
    if (pair.starts_with(kName)) {
      return Shown(std::string(pair.substr(kName.size(), 63)));
    }
    at = end + 1;
  }
  return "";
}

class Scan {
 public:
  Scan(const std::vector<std::string>& files, HolderLimits limits)
      : limits_(limits), deadline_(Steady::now() + limits.time) {
    for (const std::string& file : files) {
      Wanted& wanted = wanted_.emplace_back();
      wanted.path = file;
    }
    for (Wanted& wanted : wanted_) {
      wanted.name = NameOf(wanted.path);
      wanted.known = Identify(AT_FDCWD, wanted.path.c_str(), wanted.info);
    }
  }

  // False when a limit is met.
  bool Look(const std::string& process, pid_t pid, HolderScan& scan) {
    const std::string fds = process + "/fd";
    const Directory directory(::opendir(fds.c_str()));
    // Another user's, or gone by now.
    if (!directory) return Steady::now() < deadline_;
    std::vector<bool> found(wanted_.size());
    while (const dirent* entry = ::readdir(directory.get())) {
      if (++looked_ % kLookEvery == 0 && Steady::now() >= deadline_) return false;
      char target[4096];
      const ssize_t size =
          ::readlinkat(::dirfd(directory.get()), entry->d_name, target, sizeof(target));
      if (size <= 0) continue;
      const std::string_view path(target, static_cast<size_t>(size));
      const std::string_view name = NameOf(path);
      for (size_t i = 0; i < wanted_.size(); ++i) {
        if (found[i] || name != wanted_[i].name) continue;
        struct statx info = {};
        const bool seen =
            wanted_[i].known && Identify(::dirfd(directory.get()), entry->d_name, info);
        if (seen ? !IsSameFile(info, wanted_[i].info) : path != wanted_[i].path) continue;
        found[i] = true;
        if (scan.holders.size() >= limits_.holders) return false;
        Add(process, pid, i, scan);
      }
    }
    return Steady::now() < deadline_;
  }

 private:
  static void Add(const std::string& process, pid_t pid, size_t file, HolderScan& scan) {
    struct stat owner = {};
    (void)::stat(process.c_str(), &owner);
    scan.holders.push_back({.file = file,
                            .pid = pid,
                            .uid = owner.st_uid,
                            .command = CommandOf(process),
                            .job_id = JobOf(process)});
  }

  const HolderLimits limits_;
  const Steady::time_point deadline_;
  std::vector<Wanted> wanted_;
  size_t looked_ = 0;
};

}  // namespace

HolderScan FindFileHolders(const std::vector<std::string>& files, const std::string& proc,
                           HolderLimits limits) {
  HolderScan result;
  if (files.empty()) return result;
  const Directory directory(::opendir(proc.c_str()));
  if (!directory) {
    result.complete = false;
    return result;
  }
  Scan scan(files, limits);
  while (const dirent* entry = ::readdir(directory.get())) {
    char* end = nullptr;
    const long pid = std::strtol(entry->d_name, &end, 10);
    if (pid <= 0 || *end != '\0' || pid == ::getpid()) continue;
    if (!scan.Look(proc + "/" + entry->d_name, static_cast<pid_t>(pid), result)) {
      result.complete = false;
      break;
    }
  }
  std::sort(result.holders.begin(), result.holders.end(),
            [](const FileHolder& a, const FileHolder& b) {
              return a.file != b.file ? a.file < b.file : a.pid < b.pid;
            });
  return result;
}

std::string LocalUserName(uid_t uid) {
  std::string text;
  const std::string number = std::to_string(uid);
  if (!ReadFile("/etc/passwd", text, kPasswdBytes)) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = std::string_view(text).substr(at, end - at);
      at = end + 1;
      const size_t name = line.find(':');
      if (name == std::string_view::npos || name == 0) continue;
      const size_t password = line.find(':', name + 1);
      if (password == std::string_view::npos) continue;
      const std::string_view rest = line.substr(password + 1);
      if (rest.substr(0, rest.find(':')) == number) return std::string(line.substr(0, name));
    }
  }
  return "uid " + number;
}

}  // namespace muster
