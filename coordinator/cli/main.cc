// The program `coordinator`: prepares the process, finds the command and runs it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <system_error>
#include <vector>

#include "common/base/annotate.h"
#include "common/base/version.h"
#include "common/log/log.h"
#include "common/rpc/process.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/signals.h"

namespace muster {
namespace {

// stdin is never read: a loop that feeds the command's caller keeps its lines, and children get
// nothing from it either. A standard descriptor that is closed would become some other file.
void PrepareDescriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fd != STDIN_FILENO && ::fcntl(fd, F_GETFD) >= 0) continue;
    const int null = ::open("/dev/null", O_RDWR);
    if (null >= 0 && null != fd) {
      ::dup2(null, fd);
      ::close(null);
    }
  }
  rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    // Not allowed: fewer files it is.
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
}

// gRPC, the store and the socket of a command need this many; with fewer they hang or end it.
constexpr rlim_t kFewestFiles = 64;

bool HasEnoughFiles(Reporter& reporter) {
  rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= kFewestFiles) return true;
  reporter.Say(fmt::format("the limit of open files is {}, but at least {} are needed (ulimit -n)",
                           files.rlim_cur, kFewestFiles));
  return false;
}

// What std::thread throws where no thread can be had. Agents of the command are ended by now, or
// end by themselves once this process is gone.
[[noreturn]] void EndWithoutThreads(const std::system_error& error, Reporter& reporter) {
  reporter.Say(
      fmt::format("cannot start a thread: {} (the limits of processes and memory, ulimit -u and "
                  "ulimit -v, may be too low)",
                  error.code().message()));
  reporter.Flush(std::chrono::seconds(2));
  // Not exit: other threads may live, and use what it would destroy.
  ::_exit(kExitNotStarted);
}

int Main(const std::vector<std::string>& arguments) {
  Reporter reporter(STDERR_FILENO);
  if (arguments.empty()) {
    RunHelp({}, reporter);
    return kExitUsage;
  }
  const std::string& name = arguments[0];
  const Arguments rest = Arguments(arguments).subspan(1);
  if (name == "--version" || name == "version") {
    return PrintResult(fmt::format("coordinator {}\n", kVersion), reporter);
  }
  if (name == "--help" || name == "-h" || name == "help") return RunHelp(rest, reporter);
  std::vector<std::string> names;
  for (const Command& command : Commands()) {
    if (!command.hidden) names.emplace_back(command.name);
    if (command.name != name) continue;
    if (!HasEnoughFiles(reporter)) return kExitNotStarted;
    // Before any thread exists: they all inherit what is blocked.
    if (command.takes_signals) PrepareSignals();
    PrepareProcessForGrpc();
    // For developers: what the embedded coordinator does, when MUSTER_LOG or --log-level asks for
    // it.
    if (absl::Status status = SetUpLog({"", command.log_level}); !status.ok()) {
      reporter.Say(MessageOf(status));
    }
    try {
      const int status = command.run(rest, reporter);
      reporter.Flush(std::chrono::seconds(10));
      return status;
    } catch (const std::system_error& error) {
      EndWithoutThreads(error, reporter);
    }
  }
  const std::string closest = ClosestWord(name, names);
  reporter.Say(closest.empty()
                   ? fmt::format("unknown command '{}' (coordinator --help lists them)", name)
                   : fmt::format("unknown command '{}' (did you mean {}?)", name, closest));
  return kExitUsage;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::PrepareDescriptors();
  return muster::Main(std::vector<std::string>(argv + 1, argv + argc));
}
