#include "agent/shim/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <set>
#include <unordered_map>
#include <utility>

#include "agent/shim/text.h"
#include "common/io/unique_fd.h"

namespace muster::shim {
namespace {

constexpr size_t kMaxEnvironmentBytes = size_t{8} << 20;

// Reads a file of /proc; empty when there is none.
std::string ReadProcFile(const std::string& path, size_t max_bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!fd) return text;
  char chunk[4096];
  while (text.size() < max_bytes) {
    const ssize_t count = ::read(fd.get(), chunk, sizeof(chunk));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(chunk, static_cast<size_t>(count));
  }
  return text;
}

std::string ProcPath(pid_t pid, const char* file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

std::vector<ProcessInfo> AllProcesses() {
  std::vector<ProcessInfo> all;
  DIR* directory = ::opendir("/proc");
  if (directory == nullptr) return all;
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    if (auto process = ReadProcess(std::atoi(entry->d_name))) all.push_back(std::move(*process));
  }
  ::closedir(directory);
  return all;
}

// Sends `signal` to this very process, not to another that has got its pid since. The pidfd pins
// whoever has the pid now; if that has the start time seen before, it is the same process.
bool SignalProcess(const ProcessInfo& process, int signal) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0u)));
  if (!pidfd && errno == ESRCH) return false;
  const std::optional<ProcessInfo> now = ReadProcess(process.pid);
  if (!now || now->start_ticks != process.start_ticks) return false;
  if (!pidfd) return ::kill(process.pid, signal) == 0;
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0u) == 0;
}

// Runs before others for as long as it lives, where that is allowed: a race against a fork bomb
// must be won.
class RaisedPriority {
 public:
  RaisedPriority() {
    errno = 0;
    before_ = ::getpriority(PRIO_PROCESS, 0);
    raised_ = errno == 0 && ::setpriority(PRIO_PROCESS, 0, -20) == 0;
  }
  ~RaisedPriority() {
    if (raised_) (void)::setpriority(PRIO_PROCESS, 0, before_);
  }
  RaisedPriority(const RaisedPriority&) = delete;
  RaisedPriority& operator=(const RaisedPriority&) = delete;

 private:
  int before_ = 0;
  bool raised_ = false;
};

}  // namespace

std::optional<ProcessInfo> ParseStat(const std::string& text) {
  // The command may hold blanks and parentheses: it ends at the last one.
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessInfo process;
  process.pid = std::atoi(text.c_str());
  process.command = text.substr(open + 1, close - open - 1);
  // Fields 3 (state), 4 (parent), 6 (session), 14 to 17 (processor times) and 22 (start time).
  size_t position = close + 1;
  for (int field = 3; field <= 22; ++field) {
    position = text.find_first_not_of(' ', position);
    if (position == std::string::npos) return std::nullopt;
    const size_t end = std::min(text.find_first_of(" \n", position), text.size());
    const char* begin = text.data() + position;
    if (field == 3) process.state = *begin;
    if (field == 4) std::from_chars(begin, text.data() + end, process.parent);
    if (field == 6) std::from_chars(begin, text.data() + end, process.session);
    if (field >= 14 && field <= 17) {
      uint64_t ticks = 0;
      std::from_chars(begin, text.data() + end, ticks);
      process.cpu_ticks += ticks;
    }
    if (field == 22) std::from_chars(begin, text.data() + end, process.start_ticks);
    position = end;
  }
  return process;
}

std::optional<ProcessInfo> ReadProcess(pid_t pid) {
  return ParseStat(ReadProcFile(ProcPath(pid, "stat"), 4096));
}

std::vector<ProcessInfo> DescendantsOf(pid_t root) {
  std::vector<ProcessInfo> all = AllProcesses();
  std::unordered_map<pid_t, std::vector<size_t>> children;
  for (size_t i = 0; i < all.size(); ++i) children[all[i].parent].push_back(i);
  std::vector<ProcessInfo> found;
  std::vector<pid_t> parents = {root};
  for (size_t next = 0; next < parents.size(); ++next) {
    for (const size_t child : children[parents[next]]) {
      parents.push_back(all[child].pid);
      found.push_back(std::move(all[child]));
    }
    // Readings of different moments could show a circle.
    children.erase(parents[next]);
  }
  return found;
}

bool HasNoChildren() {
  siginfo_t info = {};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 && errno == ECHILD;
}

std::optional<uint32_t> RankInEnvironment(pid_t pid) {
  const std::string environment = ReadProcFile(ProcPath(pid, "environ"), kMaxEnvironmentBytes);
  constexpr std::string_view kName = "RANK=";
  size_t position = 0;
  while (position < environment.size()) {
    const size_t end = std::min(environment.find('\0', position), environment.size());
    const auto variable = std::string_view(environment).substr(position, end - position);
    if (variable.starts_with(kName)) {
      uint32_t rank = 0;
      const auto [last, error] =
          std::from_chars(variable.data() + kName.size(), variable.data() + variable.size(), rank);
      if (error == std::errc() && last == variable.data() + variable.size()) return rank;
      return std::nullopt;
    }
    position = end + 1;
  }
  return std::nullopt;
}

std::vector<int> AttributeToRanks(const std::vector<ProcessInfo>& descendants, pid_t root,
                                  const std::vector<pid_t>& rank_pids,
                                  const std::vector<uint32_t>& rank_numbers) {
  std::unordered_map<pid_t, int> by_pid;
  std::unordered_map<uint32_t, int> by_number;
  for (size_t i = 0; i < rank_pids.size(); ++i) {
    if (rank_pids[i] > 0) by_pid[rank_pids[i]] = static_cast<int>(i);
    by_number[rank_numbers[i]] = static_cast<int>(i);
  }
  std::unordered_map<pid_t, int> owners;
  std::vector<int> result;
  for (const ProcessInfo& process : descendants) {
    int owner = -1;
    if (by_pid.contains(process.pid)) {
      owner = by_pid[process.pid];
    } else if (process.parent != root) {
      // Parents come before their children.
      owner = owners.contains(process.parent) ? owners[process.parent] : -1;
    } else if (by_pid.contains(process.session)) {
      owner = by_pid[process.session];
    } else if (const auto number = RankInEnvironment(process.pid)) {
      owner = by_number.contains(*number) ? by_number[*number] : -1;
    }
    owners[process.pid] = owner;
    result.push_back(owner);
  }
  return result;
}

std::vector<ProcessInfo> KillDescendants(pid_t root, const Selector& selector,
                                         milliseconds budget) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + budget;
  const RaisedPriority priority;
  std::set<std::pair<pid_t, uint64_t>> seen;
  std::vector<ProcessInfo> targets;
  while (true) {
    const std::vector<ProcessInfo> descendants = DescendantsOf(root);
    const std::vector<bool> selected = selector(descendants);
    bool found_new = false;
    for (size_t i = 0; i < descendants.size(); ++i) {
      const ProcessInfo& process = descendants[i];
      if (!selected[i] || process.dead()) continue;
      if (!seen.insert({process.pid, process.start_ticks}).second) continue;
      found_new = true;
      (void)SignalProcess(process, SIGSTOP);
      targets.push_back(process);
    }
    if (!found_new || std::chrono::steady_clock::now() >= deadline) break;
  }
  std::vector<ProcessInfo> killed;
  for (ProcessInfo& process : targets) {
    if (SignalProcess(process, SIGKILL)) killed.push_back(std::move(process));
  }
  return killed;
}

std::string DescribeProcess(const ProcessInfo& process) {
  std::string text = "pid " + std::to_string(process.pid) + " (" + Printable(process.command) +
                     ") in state " + process.state;
  const std::string place = ReadProcFile(ProcPath(process.pid, "wchan"), 200);
  if (!place.empty() && place != "0") text += " at " + Printable(place);
  return text;
}

}  // namespace muster::shim
