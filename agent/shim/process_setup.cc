#include "agent/shim/process_setup.h"

#include <dirent.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/io/oom_score.h"

namespace muster::shim {

const int kIgnoredSignals[] = {SIGHUP,    SIGINT,  SIGQUIT, SIGPIPE, SIGALRM, SIGUSR1,
                               SIGUSR2,   SIGTSTP, SIGTTIN, SIGTTOU, SIGXCPU, SIGXFSZ,
                               SIGVTALRM, SIGPROF, SIGIO,   SIGPWR};
const int kIgnoredSignalCount = sizeof(kIgnoredSignals) / sizeof(kIgnoredSignals[0]);

namespace {

// Last to die, but not exempt: a process that cannot be killed can spin in a full cgroup for ever.
constexpr int kShimOomScore = -999;

void OpenStandardDescriptors() {
  while (true) {
    const int fd = ::open("/dev/null", O_RDWR);
    if (fd < 0) return;
    if (fd > STDERR_FILENO) {
      ::close(fd);
      return;
    }
  }
}

void CloseOtherDescriptors() {
  if (::syscall(SYS_close_range, 3u, ~0u, 0u) == 0) return;
  // A kernel without close_range.
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return;
  std::vector<int> open_fds;
  while (const dirent* entry = ::readdir(directory)) open_fds.push_back(std::atoi(entry->d_name));
  ::closedir(directory);
  for (const int fd : open_fds) {
    if (fd > STDERR_FILENO) ::close(fd);
  }
}

void SetUpSignals() {
  struct sigaction action = {};
  action.sa_handler = SIG_IGN;
  for (const int signal : kIgnoredSignals) ::sigaction(signal, &action, nullptr);
  // An ignored SIGCHLD, which can be inherited, would make the kernel throw exit statuses away.
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigaddset(&mask, SIGTERM);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

}  // namespace

Inherited SetUpProcess() {
  Inherited inherited;
  OpenStandardDescriptors();
  CloseOtherDescriptors();
  SetUpSignals();
  // Fails for a group leader, which has a session of its own already or shares it with nobody that
  // matters.
  (void)::setsid();
  (void)::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);

  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0) inherited.file_size_limit = limit.rlim_cur;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    inherited.open_files_limit = limit.rlim_max;
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
  }

  // What protects the shim, or the agent before it, must not protect the ranks.
  const std::optional<int> before = ReadOomScore();
  const bool protected_now = WriteOomScore(kShimOomScore);
  if (before && (protected_now || *before < 0)) {
    inherited.rank_oom_score_adj = *before < 0 ? 0 : *before;
  }
  return inherited;
}

void ReleaseProgramPages() {
  const auto release = [](dl_phdr_info* program, size_t, void*) {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    for (int i = 0; i < program->dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = program->dlpi_phdr[i];
      // What is written to is not in the file.
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
      const uintptr_t begin = (program->dlpi_addr + segment.p_vaddr) & ~(page - 1);
      const uintptr_t end = program->dlpi_addr + segment.p_vaddr + segment.p_memsz;
      // Fails where the program is not mapped from a file; then nothing is gained.
      (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
    }
    return 1;  // The first one is the program itself.
  };
  (void)::dl_iterate_phdr(release, nullptr);
}

void RedirectStandardStreams(const char* directory) {
  const std::string path = std::string(directory) + "/shim.log";
  const int log =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null >= 0) {
    (void)::dup2(null, STDIN_FILENO);
    (void)::dup2(null, STDOUT_FILENO);
    (void)::dup2(log >= 0 ? log : null, STDERR_FILENO);
    ::close(null);
  }
  if (log >= 0) ::close(log);
}

}  // namespace muster::shim
