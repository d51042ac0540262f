#include "agent/shim/rank_cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>

namespace muster::shim {
namespace {

// The number behind `key` and a blank, at the beginning of a line; 0 when there is none.
uint64_t NumberAfter(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ') {
      uint64_t value = 0;
      std::from_chars(line.data() + key.size() + 1, line.data() + line.size(), value);
      return value;
    }
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return 0;
}

// Removes the directories below `path`, deepest first, then itself.
void RemoveTree(const std::string& path, int depth) {
  constexpr int kMaxDepth = 16;
  if (depth < kMaxDepth) {
    if (DIR* directory = ::opendir(path.c_str())) {
      while (const dirent* entry = ::readdir(directory)) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
        RemoveTree(path + "/" + entry->d_name, depth + 1);
      }
      ::closedir(directory);
    }
  }
  (void)::rmdir(path.c_str());
}

}  // namespace

bool RankCgroup::Create(const std::string& parent, uint32_t rank) {
  path_ = parent + "/rank-" + std::to_string(rank);
  if (::mkdir(path_.c_str(), 0755) != 0 && errno != EEXIST) return false;
  fd_.Reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd_) return false;
  // An ordinary directory is none.
  if (::faccessat(fd_.get(), "cgroup.procs", W_OK, AT_EACCESS) == 0) return true;
  fd_.Reset();
  (void)::rmdir(path_.c_str());
  return false;
}

bool RankCgroup::Kill() {
  if (!fd_) return false;
  const UniqueFd file(::openat(fd_.get(), "cgroup.kill", O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), "1", 1) == 1;
}

bool RankCgroup::IsPopulated() const {
  return fd_ && NumberAfter(ReadFileHere("cgroup.events"), "populated") != 0;
}

std::vector<pid_t> RankCgroup::Processes() const {
  std::vector<pid_t> pids;
  if (!fd_) return pids;
  const std::string text = ReadFileHere("cgroup.procs");
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    pid_t pid = 0;
    const auto [next, error] = std::from_chars(at, end, pid);
    if (error != std::errc()) break;
    pids.push_back(pid);
    // The newline.
    at = next + 1;
  }
  return pids;
}

uint64_t RankCgroup::OomKills() const {
  return fd_ ? NumberAfter(ReadFileHere("memory.events"), "oom_kill") : 0;
}

void RankCgroup::Remove() {
  if (!fd_) return;
  fd_.Reset();
  RemoveTree(path_, 0);
}

std::string RankCgroup::ReadFileHere(const char* name) const {
  std::string text;
  const UniqueFd file(::openat(fd_.get(), name, O_RDONLY | O_CLOEXEC));
  char chunk[4096];
  while (file) {
    const ssize_t count = ::read(file.get(), chunk, sizeof(chunk));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(chunk, static_cast<size_t>(count));
  }
  return text;
}

}  // namespace muster::shim
