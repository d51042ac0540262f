#include "agent/shim/spawn.h"

#include <fcntl.h>
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
constexpr const char* kStepNames[] = {"prctl",     "stdio",     "cgroup",        "close_range",
                                      "setsid",    "signals",   "oom_score_adj", "setrlimit",
                                      "setgroups", "setresgid", "setresuid",     "setuid",
                                      "capset",    "chdir",     "execve"};

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
  char oom_score[16];
  size_t oom_score_bytes;
};

[[noreturn]] void Fail(const ChildPlan& plan, Step step) {
  const ChildReport report = {step, errno};
  // Less than PIPE_BUF into an empty pipe: whole, and without blocking.
  (void)!::write(plan.report_fd, &report, sizeof(report));
  ::_exit(127);
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
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null) return SpawnFailure{"stdin", errno};

  const std::vector<char*> argv = Pointers(*request.argv);
  const std::vector<char*> envp = Pointers(*request.env);
  ChildPlan plan = {};
  plan.path = request.path->c_str();
  plan.argv = argv.data();
  plan.envp = envp.data();
  plan.working_directory = request.working_directory->c_str();
  plan.user = request.user;
  plan.parent = ::getpid();
  plan.stdin_fd = null.get();
  plan.stdout_fd = out.write.get();
  plan.stderr_fd = err.write.get();
  plan.report_fd = report.write.get();
  plan.cgroup_procs_fd = -1;
  if (request.oom_score_adj) {
    const std::string text = std::to_string(*request.oom_score_adj);
    plan.oom_score_bytes = text.copy(plan.oom_score, sizeof(plan.oom_score));
  }

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

ExecStatus ReadExecStatus(int exec_status_fd, SpawnFailure& failure) {
  ChildReport report = {};
  ssize_t count = 0;
  do {
    count = ::read(exec_status_fd, &report, sizeof(report));
  } while (count < 0 && errno == EINTR);
  if (count == 0) return ExecStatus::kExecuted;
  if (count != static_cast<ssize_t>(sizeof(report))) return ExecStatus::kPending;
  const auto step = static_cast<size_t>(report.step);
  failure.step = step < std::size(kStepNames) ? kStepNames[step] : "unknown";
  failure.error_number = report.error_number;
  return ExecStatus::kFailed;
}

}  // namespace muster::shim
