#include "coordinator/daemon/agent_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/signal_names.h"
#include "common/io/atomic_file.h"
#include "common/log/log.h"

namespace muster {
namespace {

using Steady = std::chrono::steady_clock;

// Whoever dies sooner has not come to serve.
constexpr std::chrono::seconds kQuick(2);

class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

class SpawnAttributes {
 public:
  SpawnAttributes() { posix_spawnattr_init(&attributes_); }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  posix_spawnattr_t* get() { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

std::string ErrorPath(const std::string& state_directory) { return state_directory + "/agent.err"; }

std::string Ending(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return fmt::format("ended with code {}", info.si_status);
  return fmt::format("was ended by {}", SignalName(info.si_status));
}

// As agents document it: flags or settings that they do not take.
constexpr int kAgentExitUsage = 2;

// Last line of a file, at most 500 bytes; empty when there is none.
std::string LastLine(const std::string& path) {
  std::string text;
  if (ReadFile(path, text, size_t{1} << 20)) return "";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text.erase(0, text.rfind('\n') + 1);
  return text.substr(0, 500);
}

}  // namespace

AgentProcesses::AgentProcesses(std::string program, std::string coordinator,
                               std::vector<std::string> addresses)
    : program_(std::move(program)),
      coordinator_(std::move(coordinator)),
      addresses_(std::move(addresses)) {}

void AgentProcesses::SetDevices(std::string devices, std::string sysroot) {
  devices_ = std::move(devices);
  sysroot_ = std::move(sysroot);
}

AgentProcesses::~AgentProcesses() { StopAll(std::chrono::milliseconds(0)); }

absl::Status AgentProcesses::Spawn(const LocalAgent& agent, const std::string& state_directory) {
  Process process;
  process.agent = agent;
  process.state_directory = state_directory;
  absl::Status launched = Launch(process);
  if (launched.ok()) processes_.push_back(std::move(process));
  return launched;
}

absl::Status AgentProcesses::Launch(Process& process) const {
  const LocalAgent& agent = process.agent;
  // `--node-id NAME` stays two words: it is how an agent is found in a process list.
  std::vector<std::string> words = {program_,
                                    "run",
                                    "--node-id",
                                    agent.node_id,
                                    "--coordinator",
                                    coordinator_,
                                    "--state-dir",
                                    process.state_directory,
                                    "--ephemeral",
                                    "--slots",
                                    fmt::format("{}", agent.slots)};
  for (const std::string& address : addresses_) {
    words.push_back("--address");
    words.push_back(address);
  }
  if (!devices_.empty()) {
    words.push_back("--devices");
    words.push_back(devices_);
  }
  if (!sysroot_.empty()) {
    const std::string own = sysroot_ + "/" + agent.node_id;
    words.push_back("--sysroot");
    words.push_back(::access((own + "/.").c_str(), X_OK) == 0 ? own : sysroot_);
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const std::string errors = ErrorPath(process.state_directory);
  FileActions actions;
  posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(actions.get(), STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(actions.get(), STDERR_FILENO, errors.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  // Pipes and locks of the caller's shell must not be held open by an agent.
  posix_spawn_file_actions_addclosefrom_np(actions.get(), 3);
  SpawnAttributes attributes;
  // It takes them once it serves; until then they wait, and do not end it half-way.
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&held, signal);
  posix_spawnattr_setsigmask(attributes.get(), &held);
  posix_spawnattr_setflags(attributes.get(), POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  process.start = Steady::now();
  const int error = posix_spawn(&process.pid, program_.c_str(), actions.get(), attributes.get(),
                                argv.data(), environ);
  if (error != 0) {
    return ErrnoStatus(error, fmt::format("start {} for node {}", program_, agent.node_id));
  }
  process.pidfd.Reset(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!process.pidfd) {
    const absl::Status failed = ErrnoStatus(errno, "watch an agent");
    ::kill(process.pid, SIGKILL);
    ::waitpid(process.pid, nullptr, 0);
    return failed;
  }
  // Kernels before 5.10 do not take this flag in pidfd_open.
  ::fcntl(process.pidfd.get(), F_SETFD, FD_CLOEXEC);
  process.reaped = false;
  process.crashed = false;
  return absl::OkStatus();
}

void AgentProcesses::Watch(EventLoop& loop, MayReplace may_replace, OnDeath on_death) {
  loop_ = &loop;
  may_replace_ = std::move(may_replace);
  on_death_ = std::move(on_death);
  for (size_t i = 0; i < processes_.size(); ++i) WatchProcess(i);
}

void AgentProcesses::WatchProcess(size_t index) {
  loop_->WatchFd(processes_[index].pidfd.get(), EPOLLIN, [this, index](uint32_t) { OnEnd(index); });
}

void AgentProcesses::Unwatch() {
  if (loop_ == nullptr) return;
  for (const Process& process : processes_) loop_->UnwatchFd(process.pidfd.get());
  loop_ = nullptr;
}

void AgentProcesses::OnEnd(size_t index) {
  Process& process = processes_[index];
  loop_->UnwatchFd(process.pidfd.get());
  siginfo_t info = {};
  const int result = ::waitid(static_cast<idtype_t>(P_PIDFD),
                              static_cast<id_t>(process.pidfd.get()), &info, WEXITED | WNOHANG);
  process.reaped = true;
  // Where SIGCHLD is ignored the kernel has reaped it, and nobody knows how it ended.
  Death death{.node_id = process.agent.node_id, .text = result == 0 ? Ending(info) : "ended"};
  const std::string last_line = LastLine(ErrorPath(process.state_directory));
  spdlog::warn("agent ended node={} pid={} how={} stderr={}", LogQuoted(death.node_id), process.pid,
               LogQuoted(death.text), LogQuoted(last_line));
  if (!last_line.empty()) death.text += fmt::format(": {}", last_line);
  const bool left = result == 0 && info.si_code == CLD_EXITED && info.si_status == 0;
  // Another one would be told the same, and end the same.
  const bool misused =
      result == 0 && info.si_code == CLD_EXITED && info.si_status == kAgentExitUsage;
  const bool quick = Steady::now() - process.start < kQuick;
  process.quick_deaths = quick ? process.quick_deaths + 1 : 0;
  process.crashed = !left && !misused;
  if (!left && !misused && process.quick_deaths < kMostQuickDeaths && may_replace_()) {
    const absl::Status launched = Launch(process);
    if (launched.ok()) {
      death.replaced = true;
      WatchProcess(index);
    } else {
      death.text += fmt::format("; {}", MessageOf(launched));
    }
  }
  on_death_(death);
}

void AgentProcesses::Revive() {
  for (Process& process : processes_) {
    if (!process.crashed) continue;
    const absl::Status launched = Launch(process);
    if (!launched.ok()) spdlog::warn("agent not started error={}", LogQuoted(MessageOf(launched)));
  }
}

void AgentProcesses::StopAll(std::chrono::milliseconds limit) {
  const auto signal_all = [this](int signal) {
    for (const Process& process : processes_) {
      // Fails when it has just ended, which is what is wanted.
      if (!process.reaped)
        (void)::syscall(SYS_pidfd_send_signal, process.pidfd.get(), signal, nullptr, 0);
    }
  };
  if (limit.count() > 0) {
    signal_all(SIGTERM);
    if (WaitForAll(Steady::now() + limit)) return;
  }
  signal_all(SIGKILL);
  // Bounded: a process in uninterruptible sleep outlives even this.
  if (WaitForAll(Steady::now() + std::chrono::seconds(2))) return;
  for (const Process& process : processes_) {
    if (!process.reaped) {
      spdlog::error("agent cannot be killed node={} pid={}", LogQuoted(process.agent.node_id),
                    process.pid);
    }
  }
}

bool AgentProcesses::WaitForAll(Steady::time_point deadline) {
  for (;;) {
    std::vector<pollfd> waiting;
    for (Process& process : processes_) {
      if (process.reaped) continue;
      siginfo_t info = {};
      const int result = ::waitid(static_cast<idtype_t>(P_PIDFD),
                                  static_cast<id_t>(process.pidfd.get()), &info, WEXITED | WNOHANG);
      process.reaped = result != 0 || info.si_pid != 0;
      if (!process.reaped) waiting.push_back({process.pidfd.get(), POLLIN, 0});
    }
    if (waiting.empty()) return true;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Steady::now()).count();
    if (left <= 0) return false;
    (void)::poll(waiting.data(), waiting.size(), static_cast<int>(left));
  }
}

}  // namespace muster
