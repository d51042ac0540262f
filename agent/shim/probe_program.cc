#include "agent/shim/probe_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "agent/shim/process_tree.h"
#include "agent/shim/text.h"
#include "common/io/unique_fd.h"

namespace muster::shim {
namespace {

constexpr size_t kMaxOutputBytes = size_t{64} * 1024;
// Of 4 KiB each: what the largest pipe of a user holds.
constexpr size_t kMostReads = 256;
constexpr int kCannotExec = 127;
// For the kernel to end what was killed.
constexpr milliseconds kKillBudget{250};
constexpr milliseconds kPace{2};

SteadyTime Now() { return std::chrono::steady_clock::now(); }

std::vector<char*> Pointers(const Strings& strings) {
  std::vector<char*> pointers;
  pointers.reserve(static_cast<size_t>(strings.size()) + 1);
  for (const std::string& one : strings) pointers.push_back(const_cast<char*>(one.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void RunChild(const char* path, char* const* argv, char* const* env,
                           const char* directory, int out, int err) {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || ::dup2(null, STDIN_FILENO) < 0 || ::dup2(out, STDOUT_FILENO) < 0 ||
      ::dup2(err, STDERR_FILENO) < 0 ||
      // That the directory is missing has a check of its own.
      (::chdir(directory) != 0 && ::chdir("/") != 0)) {
    ::_exit(kCannotExec);
  }
  for (int signal = 1; signal < NSIG; ++signal) (void)::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(path, argv, env);
  ::_exit(kCannotExec);
}

// A pipe of which this process reads one end without waiting.
struct Stream {
  UniqueFd read_end;
  UniqueFd write_end;
  std::string text;

  bool Open() {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end.Reset(ends[0]);
    write_end.Reset(ends[1]);
    return ::fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
  }
  // Takes what is there, in one go; false when there was nothing.
  bool Read() {
    if (!read_end) return false;
    char chunk[4096];
    const ssize_t count = ::read(read_end.get(), chunk, sizeof(chunk));
    if (count == 0) read_end.Reset();
    if (count <= 0) return false;
    // What is more than enough is read all the same: a full pipe would stop the program.
    text.append(chunk, std::min(static_cast<size_t>(count), kMaxOutputBytes - text.size()));
    return true;
  }
};

// Kills everything below this process, whatever session it has moved to.
void KillEverything() {
  const SteadyTime end = Now() + kKillBudget;
  const auto all = [](const std::vector<ProcessInfo>& processes) {
    return std::vector<bool>(processes.size(), true);
  };
  while (!HasNoChildren() && Now() < end) {
    (void)KillDescendants(::getpid(), all, kKillBudget);
    while (::waitpid(-1, nullptr, WNOHANG | __WALL) > 0) {
    }
    if (HasNoChildren()) return;
    // Paces: what was killed is about to end.
    (void)::poll(nullptr, 0, static_cast<int>(kPace.count()));
  }
}

// Reads what the program writes until it has ended. False: not by `end`.
bool ReadToEnd(pid_t pid, Stream& out, Stream& err, SteadyTime end, int& status) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  while (true) {
    // It may have left something that holds the pipes open: its own end counts.
    const bool ended = ::waitpid(pid, &status, WNOHANG) == pid;
    // What it left behind may write for ever, too: no more than pipes hold.
    for (size_t reads = ended ? kMostReads : 1; reads > 0; --reads) {
      const bool out_had = out.Read();
      if (!err.Read() && !out_had) break;
    }
    if (ended) return true;
    const auto left = std::chrono::ceil<milliseconds>(end - Now()).count();
    if (left <= 0) return false;
    pollfd watched[3] = {
        {out.read_end.get(), POLLIN, 0}, {err.read_end.get(), POLLIN, 0}, {pidfd.get(), POLLIN, 0}};
    // Without a pidfd nobody tells of the end.
    (void)::poll(watched, 3, pidfd ? static_cast<int>(left) : static_cast<int>(kPace.count()));
  }
}

}  // namespace

std::optional<internal::ProbedProgram> RunProgram(const internal::ProbeProgram& program,
                                                  const Strings& env,
                                                  const std::string& working_directory,
                                                  SteadyTime end) {
  internal::ProbedProgram result;
  result.set_name(program.name());
  std::optional<std::string> path_variable;
  if (const auto value = FindEnv(env, "PATH")) path_variable = std::string(*value);
  const std::string name = program.argv_size() > 0 ? program.argv(0) : "";
  ResolvedProgram resolved = ResolveProgram(name, path_variable, working_directory);
  for (const std::string& folder : program.folders()) {
    if (!resolved.path.empty()) break;
    std::string full = folder;
    full.append("/").append(name);
    resolved.path = ResolveProgram(full, path_variable, working_directory).path;
  }
  if (resolved.path.empty()) {
    result.set_absent(true);
    result.set_reason(resolved.problem.message);
    return result;
  }
  result.set_path(resolved.path);
  if (program.find_only()) return result;
  Stream out;
  Stream err;
  if (!out.Open() || !err.Open()) {
    result.set_reason("pipe: " + ErrnoText(errno));
    return result;
  }
  const std::vector<char*> argv = Pointers(program.argv());
  const std::vector<char*> environment = Pointers(env);
  const pid_t pid = ::fork();
  if (pid == 0) {
    RunChild(resolved.path.c_str(), argv.data(), environment.data(), working_directory.c_str(),
             out.write_end.get(), err.write_end.get());
  }
  if (pid < 0) {
    result.set_reason("fork: " + ErrnoText(errno));
    return result;
  }
  out.write_end.Reset();
  err.write_end.Reset();
  int status = 0;
  const bool ended = ReadToEnd(pid, out, err, end, status);
  KillEverything();
  if (!ended) return std::nullopt;
  *result.mutable_output() = std::move(out.text);
  if (WIFSIGNALED(status)) {
    result.set_reason("killed by signal " + std::to_string(WTERMSIG(status)));
  } else if (WEXITSTATUS(status) != 0) {
    result.set_reason("exit status " + std::to_string(WEXITSTATUS(status)));
  }
  const std::string said = LastWords(err.text);
  if (!result.reason().empty() && !said.empty()) *result.mutable_reason() += ": " + said;
  return result;
}

}  // namespace muster::shim
