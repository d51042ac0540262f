#include "agent/supervise/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <set>

#include "agent/supervise/escape.h"
#include "common/base/annotate.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kNamePrefix[] = "muster-";
constexpr std::chrono::minutes kStaleAge{1};
// How often a group is made again that somebody removes at this very moment.
constexpr int kMakeAttempts = 3;
constexpr std::chrono::milliseconds kStaleKillTime{2000};

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

std::string ReadText(const std::string& path) {
  std::string text;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return text;
  std::array<char, 4096> buffer;
  ssize_t got = 0;
  while ((got = ::read(fd.get(), buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

bool IsCgroup2(const char* path) {
  struct statfs info = {};
  return ::statfs(path, &info) == 0 &&
         static_cast<unsigned long>(info.f_type) == static_cast<unsigned long>(CGROUP2_SUPER_MAGIC);
}

// Directories of the group and of all below it, the deepest first.
void ListGroups(const std::string& directory, std::vector<std::string>* groups) {
  const std::unique_ptr<DIR, CloseDirectory> open(::opendir(directory.c_str()));
  if (!open) return;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") {
      ListGroups(fmt::format("{}/{}", directory, name), groups);
    }
  }
  groups->push_back(directory);
}

void ReadProcesses(const std::string& directory, std::set<int>* processes) {
  const std::string text = ReadText(directory + "/cgroup.procs");
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int pid = 0;
    const auto result = std::from_chars(at, end, pid);
    // 0 stands for a process of another pid namespace: it cannot be signalled by number.
    if (result.ec == std::errc() && pid > 0) processes->insert(pid);
    at = std::find(result.ptr, end, '\n');
    if (at < end) ++at;
  }
}

std::set<int> ProcessesBelow(const std::string& directory) {
  std::vector<std::string> groups;
  ListGroups(directory, &groups);
  std::set<int> processes;
  for (const std::string& group : groups) ReadProcesses(group, &processes);
  return processes;
}

bool IsPopulated(const std::string& events) {
  return events.find("populated 1") != std::string::npos;
}

bool IsOld(const std::string& directory) {
  struct stat info = {};
  if (::lstat(directory.c_str(), &info) != 0) return false;
  const auto made = std::chrono::system_clock::from_time_t(info.st_mtime);
  return std::chrono::system_clock::now() - made >= kStaleAge;
}

// Locks the directory without waiting; an empty descriptor, and errno, when that fails or when the
// directory is not there any more once it is locked.
UniqueFd LockGroup(const std::string& directory, int operation) {
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd || ::flock(fd.get(), operation | LOCK_NB) != 0) return {};
  struct stat locked = {};
  struct stat named = {};
  if (::fstat(fd.get(), &locked) != 0 || ::stat(directory.c_str(), &named) != 0) return {};
  if (locked.st_ino == named.st_ino && locked.st_dev == named.st_dev) return fd;
  errno = ENOENT;
  return {};
}

}  // namespace

std::string ParseUnifiedCgroup(std::string_view proc_self_cgroup) {
  while (!proc_self_cgroup.empty()) {
    const size_t end = std::min(proc_self_cgroup.find('\n'), proc_self_cgroup.size());
    const std::string_view line = proc_self_cgroup.substr(0, end);
    proc_self_cgroup.remove_prefix(std::min(end + 1, proc_self_cgroup.size()));
    if (line.starts_with("0::/")) return std::string(line.substr(3));
  }
  return "";
}

std::string CgroupOfProcess(int pid) {
  return ParseUnifiedCgroup(ReadText(fmt::format("/proc/{}/cgroup", pid)));
}

std::string FindCgroupRoot() {
  for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    if (IsCgroup2(root)) return root;
  }
  return "";
}

std::string FindWritableCgroup() {
  const std::string root = FindCgroupRoot();
  const std::string own = CgroupOfProcess(::getpid());
  // A path that leaves the root of the namespace cannot be reached by name.
  if (root.empty() || own.empty() || own.starts_with("/../")) return "";
  const std::string directory = own == "/" ? root : root + own;
  // A root group has no cgroup.kill itself; MakeCgroup looks for it in the child.
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0) return "";
  return directory;
}

std::string CgroupName(const AttemptId& attempt, const NodeId& node) {
  return fmt::format("{}{}-{}-{}", kNamePrefix, attempt.job.value(), attempt.attempt,
                     EscapeFileName(node.value()));
}

absl::StatusOr<HeldCgroup> MakeCgroup(const std::string& parent, const std::string& name) {
  HeldCgroup group = {.directory = fmt::format("{}/{}", parent, name), .lock = {}};
  for (int attempt = 1; !group.lock; ++attempt) {
    if (::mkdir(group.directory.c_str(), 0755) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, group.directory);
    }
    group.lock = LockGroup(group.directory, LOCK_SH);
    if (!group.lock && attempt == kMakeAttempts) return ErrnoStatus(errno, group.directory);
  }
  // A group of an earlier start counts as new.
  (void)::futimens(group.lock.get(), nullptr);
  if (::access((group.directory + "/cgroup.kill").c_str(), W_OK) != 0) {
    const absl::Status status = ErrnoStatus(errno, group.directory + "/cgroup.kill");
    // Best effort: an empty group without use does no harm.
    (void)::rmdir(group.directory.c_str());
    return status;
  }
  return group;
}

absl::Status RemoveCgroup(const std::string& directory) {
  std::vector<std::string> groups;
  ListGroups(directory, &groups);
  absl::Status status;
  for (const std::string& group : groups) {
    if (::rmdir(group.c_str()) != 0 && errno != ENOENT && status.ok()) {
      status = ErrnoStatus(errno, group);
    }
  }
  return status;
}

std::vector<std::string> ListCgroups(const std::string& parent) {
  std::vector<std::string> groups;
  const std::unique_ptr<DIR, CloseDirectory> open(::opendir(parent.c_str()));
  if (!open) return groups;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (entry->d_type == DT_DIR && name.starts_with(kNamePrefix)) {
      groups.push_back(fmt::format("{}/{}", parent, name));
    }
  }
  return groups;
}

void RemoveStaleCgroup(const std::string& directory) {
  // The age first: the lock must not be in the way of a shim that starts.
  if (!IsOld(directory)) return;
  const UniqueFd lock = LockGroup(directory, LOCK_EX);
  if (!lock || !IsOld(directory)) return;
  if (IsPopulated(ReadText(directory + "/cgroup.events"))) {
    // Its shim is dead, and so is the agent that should have looked after that.
    const CgroupKill killed = KillCgroup(directory, kStaleKillTime);
    spdlog::warn("processes of a dead attempt killed cgroup={} killed={} left={}", directory,
                 killed.killed, killed.left.size());
  }
  // What cannot be killed stays.
  (void)RemoveCgroup(directory);
}

CgroupKill KillCgroup(const std::string& directory, std::chrono::milliseconds limit) {
  CgroupKill result;
  const Clock::time_point deadline = Clock::now() + limit;
  const UniqueFd events(::open((directory + "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC));
  if (!events) return result;  // No such group: nothing runs in it.
  std::set<int> seen;
  while (true) {
    const std::set<int> now = ProcessesBelow(directory);
    seen.insert(now.begin(), now.end());
    std::array<char, 512> text = {};
    const ssize_t got = ::pread(events.get(), text.data(), text.size() - 1, 0);
    if (got <= 0 || !IsPopulated(text.data())) break;
    const UniqueFd kill(::open((directory + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
    if (!kill || ::write(kill.get(), "1", 1) != 1) {
      for (const int pid : now) (void)::kill(pid, SIGKILL);  // ESRCH: it is gone already.
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      const std::set<int> still = ProcessesBelow(directory);
      result.left.assign(still.begin(), still.end());
      break;
    }
    // The kernel reports POLLPRI when `populated` changes. Looked at again now and then all the
    // same, because a process that moved in behind the kill changes nothing there.
    pollfd wait = {events.get(), POLLPRI, 0};
    (void)::poll(&wait, 1, static_cast<int>(std::min<long long>(left.count(), 200)));
  }
  result.killed = static_cast<uint32_t>(seen.size() - result.left.size());
  return result;
}

}  // namespace muster
