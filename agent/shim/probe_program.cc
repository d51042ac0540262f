#include "agent/shim/probe_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <vector>

#include "agent/shim/text.h"
#include "common/io/unique_fd.h"

namespace muster::shim {
namespace {

constexpr size_t kMaxOutputBytes = size_t{64} * 1024;
constexpr int kCannotExec = 127;

std::vector<char*> Pointers(const Strings& strings) {
  std::vector<char*> pointers;
  pointers.reserve(static_cast<size_t>(strings.size()) + 1);
  for (const std::string& one : strings) pointers.push_back(const_cast<char*>(one.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void RunChild(const char* path, char* const* argv, char* const* env,
                           const char* directory, int output) {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || ::dup2(null, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
      ::dup2(null, STDERR_FILENO) < 0 || ::chdir(directory) != 0) {
    ::_exit(kCannotExec);
  }
  for (int signal = 1; signal < NSIG; ++signal) (void)::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(path, argv, env);
  ::_exit(kCannotExec);
}

}  // namespace

internal::ProbedProgram RunProgram(const internal::ProbeProgram& program, const Strings& env,
                                   const std::string& working_directory) {
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
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    result.set_reason("pipe: " + ErrnoText(errno));
    return result;
  }
  const UniqueFd input(ends[0]);
  UniqueFd output(ends[1]);
  const std::vector<char*> argv = Pointers(program.argv());
  const std::vector<char*> environment = Pointers(env);
  const pid_t pid = ::fork();
  if (pid == 0) {
    RunChild(resolved.path.c_str(), argv.data(), environment.data(), working_directory.c_str(),
             output.get());
  }
  if (pid < 0) {
    result.set_reason("fork: " + ErrnoText(errno));
    return result;
  }
  output.Reset();
  char chunk[4096];
  while (true) {
    const ssize_t count = ::read(input.get(), chunk, sizeof(chunk));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    // What is more than enough is read all the same: a full pipe would stop the program.
    const size_t room = kMaxOutputBytes - result.output().size();
    result.mutable_output()->append(chunk, std::min(static_cast<size_t>(count), room));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    result.set_reason("killed by signal " + std::to_string(WTERMSIG(status)));
  } else if (WEXITSTATUS(status) != 0) {
    result.set_reason("exit status " + std::to_string(WEXITSTATUS(status)));
  }
  return result;
}

}  // namespace muster::shim
