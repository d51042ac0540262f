#include "agent/supervise/shim_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/supervise/attempt_directory.h"
#include "common/base/annotate.h"
#include "common/base/signal_names.h"

namespace muster {
namespace {

// Bootstraps of many ranks with large environments are megabytes: fewer wake-ups with a larger
// pipe.
constexpr int kBootstrapPipeBytes = 1 << 20;

absl::Status MakePipe(UniqueFd* read_end, UniqueFd* write_end) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  read_end->Reset(ends[0]);
  write_end->Reset(ends[1]);
  return absl::OkStatus();
}

absl::Status SetNonBlocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return ErrnoStatus(errno, "fcntl");
  return absl::OkStatus();
}

class SpawnSettings {
 public:
  SpawnSettings() {
    error_ = ::posix_spawnattr_init(&attributes_);
    if (error_ == 0) error_ = ::posix_spawn_file_actions_init(&actions_);
  }
  ~SpawnSettings() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&actions_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  void Fill(int stdin_fd, int stdout_fd, int stderr_fd) {
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    // A session of its own: Ctrl-C at the terminal of a local agent is not meant for the shim.
    Check(::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID));
    Check(::posix_spawnattr_setsigmask(&attributes_, &none));
    Check(::posix_spawnattr_setsigdefault(&attributes_, &all));
    Check(::posix_spawn_file_actions_adddup2(&actions_, stdin_fd, 0));
    Check(::posix_spawn_file_actions_adddup2(&actions_, stdout_fd, 1));
    Check(::posix_spawn_file_actions_adddup2(&actions_, stderr_fd, 2));
    Check(::posix_spawn_file_actions_addclosefrom_np(&actions_, 3));
    Check(::posix_spawn_file_actions_addchdir_np(&actions_, "/"));
  }

  int error() const { return error_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }

 private:
  void Check(int error) {
    if (error_ == 0) error_ = error;
  }

  int error_ = 0;
  posix_spawnattr_t attributes_;
  posix_spawn_file_actions_t actions_;
};

// Moves a descriptor out of the way of 0, 1 and 2, which the child's dup2 calls would overwrite.
absl::Status KeepAboveStdio(UniqueFd* fd) {
  if (fd->get() > 2) return absl::OkStatus();
  const int moved = ::fcntl(fd->get(), F_DUPFD_CLOEXEC, 3);
  if (moved < 0) return ErrnoStatus(errno, "fcntl");
  fd->Reset(moved);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SpawnedShim> SpawnShim(const ShimCommand& command) {
  SpawnedShim shim;
  UniqueFd stdin_end;
  UniqueFd stdout_end;
  absl::Status status = MakePipe(&stdin_end, &shim.bootstrap);
  if (status.ok()) status = MakePipe(&shim.ready, &stdout_end);
  if (status.ok()) status = SetNonBlocking(shim.bootstrap.get());
  if (status.ok()) status = SetNonBlocking(shim.ready.get());
  UniqueFd errors(command.directory_fd < 0
                      ? ::open("/dev/null", O_WRONLY | O_CLOEXEC)
                      : ::openat(command.directory_fd, kShimErrorFile,
                                 O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (status.ok() && !errors) status = ErrnoStatus(errno, kShimErrorFile);
  for (UniqueFd* fd : {&stdin_end, &stdout_end, &errors}) {
    if (status.ok()) status = KeepAboveStdio(fd);
  }
  if (!status.ok()) return status;
  // A smaller pipe works as well; users without privileges have a quota.
  (void)::fcntl(shim.bootstrap.get(), F_SETPIPE_SZ, kBootstrapPipeBytes);

  SpawnSettings settings;
  settings.Fill(stdin_end.get(), stdout_end.get(), errors.get());
  if (settings.error() != 0) return ErrnoStatus(settings.error(), "posix_spawn settings");
  std::string name = "muster-shim";
  std::vector<char*> argv = {name.data()};
  for (const std::string& one : command.arguments) argv.push_back(const_cast<char*>(one.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> variables;
  variables.reserve(command.environ.size() + 1);
  for (const std::string& one : command.environ)
    variables.push_back(const_cast<char*>(one.c_str()));
  variables.push_back(nullptr);
  const int error = ::posix_spawn(&shim.pid, command.binary.c_str(), settings.actions(),
                                  settings.attributes(), argv.data(), variables.data());
  if (error != 0) return ErrnoStatus(error, command.binary);
  // The child is not reaped yet, so the number is still its own.
  shim.pidfd.Reset(static_cast<int>(::syscall(SYS_pidfd_open, shim.pid, 0)));
  if (!shim.pidfd) {
    status = ErrnoStatus(errno, "pidfd_open");
    // A child that cannot be followed must not run.
    (void)::kill(shim.pid, SIGKILL);
    while (::waitpid(shim.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return status;
  }
  return shim;
}

ChildReaper::~ChildReaper() {
  for (const auto& [pidfd, child] : children_) loop_.UnwatchFd(pidfd);
}

void ChildReaper::Watch(pid_t pid, UniqueFd pidfd, Ended ended) {
  const int fd = pidfd.get();
  children_[fd] = Child{pid, std::move(pidfd), std::move(ended)};
  loop_.WatchFd(fd, EPOLLIN, [this, fd](uint32_t) { Reap(fd); });
}

void ChildReaper::Reap(int pidfd) {
  const auto it = children_.find(pidfd);
  if (it == children_.end()) return;
  int status = 0;
  const pid_t got = ::waitpid(it->second.pid, &status, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return;
  loop_.UnwatchFd(pidfd);
  const Child child = std::move(it->second);
  children_.erase(it);
  child.ended(status);
}

std::string DescribeWaitStatus(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by {}", SignalName(WTERMSIG(status)));
  return fmt::format("ended with code {}", WEXITSTATUS(status));
}

}  // namespace muster
