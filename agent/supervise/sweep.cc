#include "agent/supervise/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "agent/supervise/cgroup.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

// Environments are limited by the stack limit of execve, a few megabytes; what is longer is not
// read to its end.
constexpr size_t kMostEnvironmentBytes = size_t{8} << 20;
// Nothing found in this many scans in a row: nothing is left. One is not enough: a process can fork
// and exit between the moments at which a scan looks at parent and child.
constexpr int kCleanScans = 2;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// False when it cannot be read: gone, or somebody else's.
bool ReadProcFile(int pid, const char* file, std::string* text) {
  text->clear();
  const UniqueFd fd(::open(fmt::format("/proc/{}/{}", pid, file).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return false;
  std::array<char, 16384> buffer;
  while (text->size() < kMostEnvironmentBytes) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0) return false;
    if (got == 0) break;
    text->append(buffer.data(), static_cast<size_t>(got));
  }
  return true;
}

std::vector<int> ListProcesses() {
  std::vector<int> pids;
  const std::unique_ptr<DIR, CloseDirectory> proc(::opendir("/proc"));
  if (!proc) return pids;
  while (const dirent* entry = ::readdir(proc.get())) {
    int pid = 0;
    const std::string_view name = entry->d_name;
    const auto result = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (result.ec == std::errc() && result.ptr == name.data() + name.size()) pids.push_back(pid);
  }
  return pids;
}

class Sweeper {
 public:
  explicit Sweeper(const SweepTarget& target) : target_(target) {}

  // Every living process of the attempt.
  std::vector<ProcessStat> Scan() {
    std::map<int, ProcessStat> all;
    std::set<int> ours;
    std::string text;
    for (const int pid : ListProcesses()) {
      ProcessStat stat;
      if (pid == ::getpid() || !ReadProcFile(pid, "stat", &text) || !ParseProcessStat(text, &stat))
        continue;
      if (IsRank(stat)) ours.insert(pid);
      // A zombie has no environment, and nothing in it is left to kill. It still is a parent.
      if (stat.state != 'Z' && stat.state != 'X' && ReadProcFile(pid, "environ", &text) &&
          HasMarks(text, target_.attempt, target_.node)) {
        ours.insert(pid);
      }
      all.emplace(pid, std::move(stat));
    }
    AddRelatives(all, RankSessions(all), &ours);
    std::vector<ProcessStat> found;
    for (const int pid : ours) {
      const ProcessStat& stat = all.at(pid);
      if (stat.state != 'Z' && stat.state != 'X') found.push_back(stat);
    }
    return found;
  }

  // Ends the process, if it is still the one that was seen. True when there is something to wait
  // for.
  bool Kill(const ProcessStat& seen, std::vector<UniqueFd>* waits) {
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, seen.pid, 0)));
    if (!pidfd) return false;
    std::string text;
    ProcessStat now;
    if (!ReadProcFile(seen.pid, "stat", &text) || !ParseProcessStat(text, &now) ||
        now.start_ticks != seen.start_ticks) {
      return false;
    }
    if (::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0) != 0) return false;
    killed_.emplace(seen.pid, seen.start_ticks);
    waits->push_back(std::move(pidfd));
    return true;
  }

  size_t killed() const { return killed_.size(); }

 private:
  bool IsRank(const ProcessStat& stat) const {
    return std::any_of(target_.ranks.begin(), target_.ranks.end(),
                       [&](const ProcessIdentity& rank) {
                         return rank.pid == stat.pid && rank.start_ticks == stat.start_ticks;
                       });
  }

  // Sessions of ranks. A number stays taken while its session has members, so one that no other
  // process leads now still is the rank's.
  std::set<int> RankSessions(const std::map<int, ProcessStat>& all) const {
    std::set<int> sessions;
    for (const ProcessIdentity& rank : target_.ranks) {
      const auto leader = all.find(rank.pid);
      if (leader == all.end() || leader->second.start_ticks == rank.start_ticks)
        sessions.insert(rank.pid);
    }
    return sessions;
  }

  // Adds children of what is ours, and members of the sessions of ranks and of what is ours:
  // programs that rewrite their environment (process titles) or start with an empty one have no
  // marks.
  static void AddRelatives(const std::map<int, ProcessStat>& all, const std::set<int>& sessions,
                           std::set<int>* ours) {
    bool grown = true;
    while (grown) {
      grown = false;
      for (const auto& [pid, stat] : all) {
        if (ours->contains(pid)) continue;
        if (ours->contains(stat.parent) || ours->contains(stat.session) ||
            sessions.contains(stat.session)) {
          ours->insert(pid);
          grown = true;
        }
      }
    }
  }

  const SweepTarget& target_;
  std::set<std::pair<int, uint64_t>> killed_;
};

void WaitForDeaths(const std::vector<UniqueFd>& pidfds, Clock::time_point deadline) {
  // No longer than this at a time: meanwhile others may have been born.
  deadline = std::min(deadline, Clock::now() + std::chrono::milliseconds(200));
  for (const UniqueFd& pidfd : pidfds) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return;
    pollfd wait = {pidfd.get(), POLLIN, 0};
    // An interruption only shortens the wait.
    (void)::poll(&wait, 1, static_cast<int>(left.count()));
  }
}

std::string Describe(const ProcessStat& stat) {
  return fmt::format("process {} ({}) in state {}", stat.pid, stat.name, stat.state);
}

}  // namespace

SweepResult Sweep(const SweepTarget& target, std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  SweepResult result;
  std::set<int> left_in_cgroup;
  if (!target.cgroup_directory.empty()) {
    const CgroupKill kill = KillCgroup(target.cgroup_directory, limit);
    result.killed += kill.killed;
    left_in_cgroup.insert(kill.left.begin(), kill.left.end());
  }
  // Also behind a cgroup: a process may have been moved out of it.
  Sweeper sweeper(target);
  std::vector<ProcessStat> found;
  for (int clean = 0; clean < kCleanScans;) {
    found = sweeper.Scan();
    clean = found.empty() ? clean + 1 : 0;
    if (Clock::now() >= deadline) break;
    std::vector<UniqueFd> waits;
    for (const ProcessStat& stat : found) sweeper.Kill(stat, &waits);
    WaitForDeaths(waits, deadline);
  }
  for (const ProcessStat& stat : found) {
    result.unkillable.push_back(Describe(stat));
    left_in_cgroup.erase(stat.pid);
  }
  for (const int pid : left_in_cgroup) {
    ProcessStat stat;
    std::string text;
    if (ReadProcFile(pid, "stat", &text) && ParseProcessStat(text, &stat)) {
      result.unkillable.push_back(Describe(stat));
    }
  }
  result.killed +=
      static_cast<uint32_t>(sweeper.killed() - std::min(sweeper.killed(), found.size()));
  return result;
}

bool ParseProcessStat(std::string_view text, ProcessStat* stat) {
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return false;
  const auto number = [](std::string_view field, auto* value) {
    const auto result = std::from_chars(field.data(), field.data() + field.size(), *value);
    return result.ec == std::errc() && result.ptr == field.data() + field.size();
  };
  std::string_view head = text.substr(0, open);
  while (!head.empty() && head.back() == ' ') head.remove_suffix(1);
  if (!number(head, &stat->pid)) return false;
  stat->name = text.substr(open + 1, close - open - 1);
  // What follows is numbered from 3: state ppid pgrp session ... starttime (22).
  std::vector<std::string_view> fields;
  std::string_view rest = text.substr(close + 1);
  while (fields.size() < 20) {
    const size_t begin = rest.find_first_not_of(" \n");
    if (begin == std::string_view::npos) return false;
    rest.remove_prefix(begin);
    const size_t length = std::min(rest.find_first_of(" \n"), rest.size());
    fields.push_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  stat->state = fields[0].front();
  return number(fields[1], &stat->parent) && number(fields[3], &stat->session) &&
         number(fields[19], &stat->start_ticks);
}

bool HasMarks(std::string_view environment, const AttemptId& attempt, const NodeId& node) {
  const std::array<std::string, 3> marks = {
      fmt::format("MUSTER_JOB_ID={}", attempt.job.value()),
      fmt::format("MUSTER_ATTEMPT={}", attempt.attempt),
      fmt::format("MUSTER_NODE={}", node.value()),
  };
  std::array<bool, 3> seen = {};
  while (!environment.empty()) {
    const size_t end = std::min(environment.find('\0'), environment.size());
    const std::string_view one = environment.substr(0, end);
    for (size_t i = 0; i < marks.size(); ++i) seen[i] = seen[i] || one == marks[i];
    environment.remove_prefix(std::min(end + 1, environment.size()));
  }
  return seen[0] && seen[1] && seen[2];
}

}  // namespace muster
