#include "agent/shim/probe.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/shim/elf_libraries.h"
#include "agent/shim/exec_image.h"
#include "agent/shim/probe_program.h"
#include "agent/shim/run_as.h"
#include "agent/shim/supervisor.h"
#include "agent/shim/text.h"
#include "common/io/record_log.h"
#include "common/io/unique_fd.h"

namespace muster::shim {
namespace {

constexpr size_t kMaxRequestBytes = size_t{64} << 20;
constexpr size_t kMaxTextBytes = size_t{64} * 1024;

bool ReadStdin(std::string& bytes) {
  char chunk[64 * 1024];
  while (bytes.size() < kMaxRequestBytes) {
    const ssize_t count = ::read(STDIN_FILENO, chunk, sizeof(chunk));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count == 0;
    bytes.append(chunk, static_cast<size_t>(count));
  }
  return false;
}

// At once: what comes next may hang.
void Tell(const internal::ProbeReply& reply) {
  std::string record;
  AppendRecord(record, reply.SerializeAsString());
  std::string_view left = record;
  while (!left.empty()) {
    const ssize_t count = ::write(STDOUT_FILENO, left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    // Nobody listens any more.
    if (count <= 0) ::_exit(1);
    left.remove_prefix(static_cast<size_t>(count));
  }
}

std::string TellEnv(const Strings& env, std::string_view name) {
  const auto value = FindEnv(env, name);
  return value ? std::string(*value) : "";
}

// The beginning of a file; what hangs is killed from outside.
bool ReadText(const std::string& path, std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return false;
  char chunk[4096];
  while (text.size() < kMaxTextBytes) {
    const ssize_t count =
        ::read(fd.get(), chunk, std::min(sizeof(chunk), kMaxTextBytes - text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    if (count == 0) break;
    text.append(chunk, static_cast<size_t>(count));
  }
  return true;
}

// False when a program did not end in time; the rest is not looked at then.
bool Answer(const internal::ProbeRequest& request, SteadyTime end) {
  const internal::ShimBootstrap& bootstrap = request.bootstrap();
  const std::string& directory = bootstrap.working_directory();
  static const Strings kNothing;
  const Strings& env = bootstrap.ranks_size() > 0 ? bootstrap.ranks(0).env() : kNothing;
  internal::ProbeReply reply;
  if (request.check_exec()) {
    std::vector<std::string> programs;
    for (const Problem& problem : CheckExec(bootstrap, programs)) {
      reply.mutable_problem()->set_check(problem.check);
      reply.mutable_problem()->set_message(problem.message);
      Tell(reply);
    }
    reply.set_exec_checked(true);
    Tell(reply);
  }
  for (const internal::ProbePath& path : request.paths()) {
    *reply.mutable_path() = LookAtPath(path, directory);
    Tell(reply);
  }
  for (const std::string& library : request.libraries()) {
    const FoundLibrary found =
        FindLibrary(library, {.library_path = TellEnv(env, "LD_LIBRARY_PATH"),
                              .working_directory = directory,
                              .sysroot = ""});
    internal::ProbedLibrary& told = *reply.mutable_library();
    told.Clear();
    told.set_name(library);
    told.set_file(found.file);
    for (const std::string& missing : found.missing) told.add_missing(missing);
    Tell(reply);
  }
  for (const internal::ProbeProgram& program : request.programs()) {
    std::optional<internal::ProbedProgram> ended = RunProgram(program, env, directory, end);
    if (!ended) return false;
    *reply.mutable_program() = *std::move(ended);
    Tell(reply);
  }
  reply.set_done(true);
  Tell(reply);
  return true;
}

}  // namespace

internal::ProbedPath LookAtPath(const internal::ProbePath& path,
                                const std::string& working_directory) {
  internal::ProbedPath result;
  result.set_path(path.path());
  result.set_with_text(path.with_text());
  const std::string full =
      path.path().starts_with('/') ? path.path() : working_directory + "/" + path.path();
  struct stat info = {};
  if (!path.writable_folder()) {
    if (::stat(full.c_str(), &info) != 0 || ::faccessat(AT_FDCWD, full.c_str(), R_OK, AT_EACCESS)) {
      result.set_reason(ErrnoText(errno));
    } else if (path.with_text() && !ReadText(full, *result.mutable_text())) {
      result.set_reason(ErrnoText(errno));
    }
    return result;
  }
  const bool there = ::stat(full.c_str(), &info) == 0;
  const std::string parent = full.substr(0, full.find_last_not_of('/') + 1);
  const std::string above = parent.substr(0, parent.rfind('/') + 1);
  if (!there && errno == ENOENT) {
    // Whoever writes logs makes it.
    if (::faccessat(AT_FDCWD, above.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
      result.set_reason("it is not there, and cannot be made: " + ErrnoText(errno));
    }
  } else if (!there) {
    result.set_reason(ErrnoText(errno));
  } else if (!S_ISDIR(info.st_mode)) {
    result.set_reason("it is no folder");
  } else if (::faccessat(AT_FDCWD, full.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    result.set_reason(ErrnoText(errno));
  }
  return result;
}

int RunProbe() {
  // Its end is known to be near even when nobody is left to kill it.
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  std::string bytes;
  internal::ProbeRequest request;
  if (!ReadStdin(bytes) || !request.ParseFromString(bytes)) {
    Complain("expected a ProbeRequest on stdin; the agent starts this program, not people");
    return kExitBadBootstrap;
  }
  ::alarm(static_cast<unsigned>(request.limit_ms() / 1000) + 2);
  // A little before the agent kills this process: what programs have started is killed here, where
  // it is known, in whatever session it is.
  const SteadyTime end =
      std::chrono::steady_clock::now() + milliseconds(request.limit_ms() - request.limit_ms() / 8);
  (void)::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  if (request.bootstrap().has_run_as()) {
    const internal::ShimRunAs& user = request.bootstrap().run_as();
    if (const char* const failed = BecomeUser(UserIdsOf(user))) {
      internal::ProbeReply reply;
      reply.set_error("the agent cannot become user " + Quoted(user.name()) + ": " + failed + ": " +
                      ErrnoText(errno));
      Tell(reply);
      return 1;
    }
    // Another user is another process to the kernel, which forgets this.
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  }
  return Answer(request, end) ? 0 : 1;
}

}  // namespace muster::shim
