#include "agent/shim/spawn.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "agent/shim/process_setup.h"

namespace muster::shim {
namespace {

// Steps of the child, in order; sent over the pipe as an index into kStepNames. Names of BecomeUser
// have their place among them.
enum Step : int {
  kStepParent,
  kStepStdio,
  kStepCgroup,
  kStepProcessors,
  kStepMemory,
  kStepDescriptors,
  kStepSession,
  kStepSignals,
  kStepOomScore,
  kStepLimits,
  kStepGroups,
  kStepGroup,
  kStepUser,
  kStepStillRoot,
  kStepCapabilities,
  kStepDirectory,
  kStepExec,
};
constexpr const char* kStepNames[] = {
    "prctl",         "stdio",       "cgroup",    "sched_setaffinity",
    "set_mempolicy", "close_range", "setsid",    "signals",
    "oom_score_adj", "setrlimit",   "setgroups", "setresgid",
    "setresuid",     "setuid",      "capset",    "chdir",
    "execve"};

struct ChildReport {
  int step;
  int error_number;
};

// Everything the child needs, prepared by the parent.
struct ChildPlan {
  const char* path;
  char* const* argv;
  char* const* envp;
  const char* working_directory;
  // Null: as the shim.
  const UserIds* user;
  pid_t parent;
  int stdin_fd;
  int stdout_fd;
  int stderr_fd;
  int report_fd;
  // cgroup.procs of the rank's cgroup when the kernel could not start it there; -1: nothing to do.
  int cgroup_procs_fd;
  // Bit masks of the kernel's shape; null: as the shim.
  const unsigned long* cpu_mask;
  size_t cpu_mask_bytes;
  const unsigned long* node_mask;
  size_t node_mask_bits;
  char oom_score[16];
  size_t oom_score_bytes;
};

void Report(const ChildPlan& plan, Step step) {
  const ChildReport report = {step, errno};
  // With all others less than PIPE_BUF: whole, and without blocking.
  (void)!::write(plan.report_fd, &report, sizeof(report));
}

[[noreturn]] void Fail(const ChildPlan& plan, Step step) {
  Report(plan, step);
  ::_exit(127);
}

// Processors may have gone offline since they were chosen: a rank without its place still runs.
void TakePlace(const ChildPlan& plan) {
  if (plan.cpu_mask != nullptr &&
      ::syscall(SYS_sched_setaffinity, 0, plan.cpu_mask_bytes, plan.cpu_mask) != 0) {
    Report(plan, kStepProcessors);
  }
  // The kernel wants one bit more than it looks at.
  if (plan.node_mask != nullptr &&
      ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, plan.node_mask, plan.node_mask_bits + 1) != 0) {
    Report(plan, kStepMemory);
  }
}

// BecomeUser, with its step as one of ours.
void BecomeUserOrFail(const ChildPlan& plan) {
  const char* const failed = BecomeUser(*plan.user);
  if (failed == nullptr) return;
  for (int step = kStepGroups; step < kStepDirectory; ++step) {
    if (std::strcmp(failed, kStepNames[step]) == 0) Fail(plan, static_cast<Step>(step));
  }
  Fail(plan, kStepUser);
}

// Soft limit up to the hard one; the hard one to infinity first where that is allowed.
bool RaiseLimit(__rlimit_resource_t resource, bool lift_hard) {
  struct rlimit limit = {};
  if (::getrlimit(resource, &limit) != 0) return false;
  if (lift_hard && limit.rlim_max != RLIM_INFINITY) {
    const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    if (::setrlimit(resource, &unlimited) == 0) return true;
  }
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(resource, &limit) == 0;
}

// Runs in the child: system calls only.
[[noreturn]] void RunChild(const ChildPlan& plan) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) Fail(plan, kStepParent);
  // The parent may have died before the line above.
  if (::getppid() != plan.parent) ::_exit(127);

  // None of these is a standard descriptor yet, so dup2 always makes one without close-on-exec.
  if (::dup2(plan.stdin_fd, STDIN_FILENO) < 0 || ::dup2(plan.stdout_fd, STDOUT_FILENO) < 0 ||
      ::dup2(plan.stderr_fd, STDERR_FILENO) < 0) {
    Fail(plan, kStepStdio);
  }
  if (plan.cgroup_procs_fd >= 0 && ::write(plan.cgroup_procs_fd, "0", 1) != 1) {
    Fail(plan, kStepCgroup);
  }
  // In its cgroup, which may have fewer processors.
  TakePlace(plan);
  // Early, and not by close-on-exec: a child that waits for the processor, or hangs in chdir
  // or execve, must not keep the locks of the shim when that is gone.
  if (!CloseAllBut(plan.report_fd)) Fail(plan, kStepDescriptors);
  if (::setsid() < 0) Fail(plan, kStepSession);

  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int i = 0; i < kIgnoredSignalCount; ++i) {
    if (::sigaction(kIgnoredSignals[i], &action, nullptr) != 0) Fail(plan, kStepSignals);
  }
  sigset_t none;
  sigemptyset(&none);
  if (::sigprocmask(SIG_SETMASK, &none, nullptr) != 0) Fail(plan, kStepSignals);

  if (plan.oom_score_bytes > 0) {
    const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    // Without /proc the shim could not protect itself either.
    if (fd >= 0 && ::write(fd, plan.oom_score, plan.oom_score_bytes) < 0) {
      Fail(plan, kStepOomScore);
    }
  }

  if (!RaiseLimit(RLIMIT_NOFILE, false)) Fail(plan, kStepLimits);
  if (!RaiseLimit(RLIMIT_MEMLOCK, true)) Fail(plan, kStepLimits);

  if (plan.user != nullptr) {
    // After everything that takes the shim's rights, and before whatever the user's must decide.
    BecomeUserOrFail(plan);
    // The kernel has taken it back with the change of the user.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) Fail(plan, kStepParent);
    if (::getppid() != plan.parent) ::_exit(127);
  }

  if (::chdir(plan.working_directory) != 0) Fail(plan, kStepDirectory);
  ::execve(plan.path, plan.argv, plan.envp);
  Fail(plan, kStepExec);
}

// clone3, with the child in `cgroup_fd` unless that is -1. Like fork: 0 in the child.
pid_t Clone3(int cgroup_fd) {
  clone_args arguments = {};
  arguments.flags = CLONE_CLEAR_SIGHAND;
  arguments.exit_signal = SIGCHLD;
  if (cgroup_fd >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<uint64_t>(cgroup_fd);
  }
  return static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof(arguments)));
}

bool OutOfResources(int error_number) { return error_number == EAGAIN || error_number == ENOMEM; }

// No pidfd is asked for: the pid of a child cannot be given to another process before the shim, its
// only waiter, has reaped it.
pid_t StartChild(int cgroup_fd, ChildPlan& plan, UniqueFd& cgroup_procs) {
  pid_t pid = Clone3(cgroup_fd);
  if (pid >= 0 || OutOfResources(errno)) return pid;
  if (cgroup_fd >= 0) {
    cgroup_procs.Reset(::openat(cgroup_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC));
    if (!cgroup_procs) return -1;
    plan.cgroup_procs_fd = cgroup_procs.get();
    pid = Clone3(-1);
    if (pid >= 0 || OutOfResources(errno)) return pid;
  }
  // A kernel without clone3, or a sandbox that refuses it.
  return ForkProcess();
}

std::vector<char*> Pointers(const Strings& strings) {
  std::vector<char*> pointers;
  pointers.reserve(static_cast<size_t>(strings.size()) + 1);
  // execve takes them as not const for historical reasons and does not write.
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

using Mask = std::vector<unsigned long>;
constexpr size_t kMaskWordBits = 8 * sizeof(unsigned long);
// More than any kernel has, so that nonsense does not take the memory.
constexpr uint32_t kMaxMaskBit = 65535;

void SetBit(Mask& mask, uint32_t bit) {
  if (bit > kMaxMaskBit) return;
  if (mask.size() <= bit / kMaskWordBits) mask.resize(bit / kMaskWordBits + 1);
  mask[bit / kMaskWordBits] |= 1UL << bit % kMaskWordBits;
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

bool MakePipe(Pipe& pipe, int bytes) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return false;
  pipe.read.Reset(fds[0]);
  pipe.write.Reset(fds[1]);
  // Only the shim's end: the rank's is an open file of its own and stays blocking.
  if (::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK) != 0) return false;
  // A user may own a limited number of pipe pages: take what there is.
  for (; bytes > 64 * 1024; bytes /= 2) {
    if (::fcntl(pipe.read.get(), F_SETPIPE_SZ, bytes) >= 0) break;
  }
  return true;
}

}  // namespace

bool CloseAllBut(int fd) {
  const auto keep = static_cast<unsigned>(fd);
  const auto close_range = [](unsigned first, unsigned last) {
    return first > last || ::syscall(SYS_close_range, first, last, 0u) == 0;
  };
  if (close_range(STDERR_FILENO + 1, keep - 1) && close_range(keep + 1, ~0u)) return true;
  // Before Linux 5.9 the one by one way. No allocation: this is between clone and execve.
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  const rlim_t last = limit.rlim_cur < 65536 ? limit.rlim_cur : 65536;
  for (rlim_t other = STDERR_FILENO + 1; other < last; ++other) {
    if (other != keep) ::close(static_cast<int>(other));
  }
  return true;
}

pid_t ForkProcess() {
  return static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

std::optional<SpawnFailure> Spawn(const SpawnRequest& request, Spawned& spawned) {
  Pipe out;
  Pipe err;
  Pipe report;
  if (!MakePipe(out, request.pipe_bytes) || !MakePipe(err, request.pipe_bytes) ||
      !MakePipe(report, 0)) {
    return SpawnFailure{"pipe", errno};
  }
  if (request.user != nullptr) {
    // Else the user could not open /dev/stdout and /dev/stderr, which are these.
    for (const Pipe* pipe : {&out, &err}) {
      if (::fchown(pipe->write.get(), request.user->uid, request.user->gid) != 0) {
        return SpawnFailure{"fchown", errno};
      }
    }
  }
  UniqueFd null;
  if (request.stdin_fd < 0) null.Reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (request.stdin_fd < 0 && !null) return SpawnFailure{"stdin", errno};

  const std::vector<char*> argv = Pointers(*request.argv);
  const std::vector<char*> envp = Pointers(*request.env);
  ChildPlan plan = {};
  plan.path = request.path->c_str();
  plan.argv = argv.data();
  plan.envp = envp.data();
  plan.working_directory = request.working_directory->c_str();
  plan.user = request.user;
  plan.parent = ::getpid();
  plan.stdin_fd = request.stdin_fd < 0 ? null.get() : request.stdin_fd;
  plan.stdout_fd = out.write.get();
  plan.stderr_fd = err.write.get();
  plan.report_fd = report.write.get();
  plan.cgroup_procs_fd = -1;
  if (request.oom_score_adj) {
    const std::string text = std::to_string(*request.oom_score_adj);
    plan.oom_score_bytes = text.copy(plan.oom_score, sizeof(plan.oom_score));
  }

  Mask cpus;
  if (request.cpus != nullptr) {
    for (const uint32_t cpu : *request.cpus) SetBit(cpus, cpu);
  }
  if (!cpus.empty()) plan.cpu_mask = cpus.data();
  plan.cpu_mask_bytes = cpus.size() * sizeof(unsigned long);
  Mask nodes;
  if (request.memory_node) SetBit(nodes, *request.memory_node);
  if (!nodes.empty()) plan.node_mask = nodes.data();
  plan.node_mask_bits = nodes.size() * kMaskWordBits;

  UniqueFd cgroup_procs;
  const pid_t pid = StartChild(request.cgroup_fd, plan, cgroup_procs);
  if (pid == 0) RunChild(plan);
  if (pid < 0) return SpawnFailure{"clone", errno};
  spawned.pid = pid;
  spawned.stdout_fd = std::move(out.read);
  spawned.stderr_fd = std::move(err.read);
  spawned.exec_status_fd = std::move(report.read);
  return std::nullopt;
}

ExecStatus ReadExecStatus(int exec_status_fd, SpawnFailure& failure,
                          std::vector<SpawnFailure>& skipped) {
  while (true) {
    ChildReport report = {};
    const ssize_t count = ::read(exec_status_fd, &report, sizeof(report));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) return ExecStatus::kExecuted;
    if (count != static_cast<ssize_t>(sizeof(report))) return ExecStatus::kPending;
    const auto step = static_cast<size_t>(report.step);
    SpawnFailure told{step < std::size(kStepNames) ? kStepNames[step] : "unknown",
                      report.error_number};
    if (report.step != kStepProcessors && report.step != kStepMemory) {
      failure = std::move(told);
      return ExecStatus::kFailed;
    }
    skipped.push_back(std::move(told));
  }
}

}  // namespace muster::shim
