#include "agent/shim/exec_checker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

#include "agent/shim/run_as.h"
#include "agent/shim/spawn.h"
#include "agent/shim/text.h"
#include "common/io/record_log.h"

namespace muster::shim {
namespace {

// What the child sends: records (common/io/record_log.h) whose first byte is one of these. `kEnd`
// is last, so that a child that died is not taken for one that found nothing.
constexpr char kProblem = 'P';
constexpr char kPath = 'X';
constexpr char kEnd = 'E';

std::string RunChecks(const internal::ShimBootstrap& bootstrap) {
  std::vector<std::string> paths;
  std::string out;
  if (bootstrap.has_run_as()) {
    if (const char* const failed = BecomeUser(UserIdsOf(bootstrap.run_as()))) {
      const std::string reason = "the agent cannot run ranks as user " +
                                 Quoted(bootstrap.run_as().name()) + ": " + failed + ": " +
                                 ErrnoText(errno);
      AppendRecord(out, kProblem + std::string("user") + '\0' + reason);
      AppendRecord(out, std::string(1, kEnd));
      return out;
    }
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  }
  for (const Problem& problem : CheckExec(bootstrap, paths)) {
    AppendRecord(out, kProblem + problem.check + '\0' + problem.message);
  }
  for (const std::string& path : paths) AppendRecord(out, kPath + path);
  AppendRecord(out, std::string(1, kEnd));
  return out;
}

[[noreturn]] void RunChild(const internal::ShimBootstrap& bootstrap, int fd) {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  (void)CloseAllBut(fd);
  const std::string out = RunChecks(bootstrap);
  std::string_view left = out;
  while (!left.empty()) {
    const ssize_t count = ::write(fd, left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    left.remove_prefix(static_cast<size_t>(count));
  }
  ::_exit(0);
}

}  // namespace

void ExecChecker::Start(const internal::ShimBootstrap& bootstrap, Done done) {
  done_ = std::move(done);
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) == 0) {
    results_.Reset(fds[0]);
    const UniqueFd write_end(fds[1]);
    pid_ = ForkProcess();
    if (pid_ == 0) RunChild(bootstrap, write_end.get());
    const bool watched = pid_ > 0 && ::fcntl(results_.get(), F_SETFL, O_NONBLOCK) == 0 &&
                         poller_.Watch(results_.get(), EPOLLIN, [this](uint32_t) { OnReadable(); });
    if (watched) return;
  }
  const int error = errno;
  Abandon();
  if (bootstrap.has_run_as()) {
    // Not here: the shim is not the user, and cannot become it and come back.
    done_({{"checks", "no process for the checks could be started: " + ErrnoText(error)}}, {});
    return;
  }
  // Short of descriptors or processes: checks here are better than none.
  std::vector<std::string> paths;
  std::vector<Problem> problems = CheckExec(bootstrap, paths);
  done_(std::move(problems), std::move(paths));
}

void ExecChecker::OnReadable() {
  char chunk[64 * 1024];
  const ssize_t count = ::read(results_.get(), chunk, sizeof(chunk));
  if (count < 0) return;
  if (count > 0) {
    received_.append(chunk, static_cast<size_t>(count));
    return;
  }
  std::vector<Problem> problems;
  std::vector<std::string> paths;
  bool complete = false;
  std::string_view left = received_;
  while (const std::optional<std::string_view> record = TakeRecord(left)) {
    const std::string_view text = record->substr(1);
    if (record->front() == kEnd) complete = true;
    if (record->front() == kPath) paths.emplace_back(text);
    if (record->front() == kProblem) {
      const size_t end = text.find('\0');
      problems.push_back({std::string(text.substr(0, end)), std::string(text.substr(end + 1))});
    }
  }
  if (!complete) problems.push_back({"checks", "the process that made the checks died"});
  poller_.Unwatch(results_.get());
  results_.Reset();
  received_ = std::string();
  done_(std::move(problems), std::move(paths));
}

void ExecChecker::Abandon() {
  if (!results_) return;
  poller_.Unwatch(results_.get());
  results_.Reset();
  // Not reaped yet, or already: in that case the pipe had ended and this is not reached.
  if (pid_ > 0) (void)::kill(pid_, SIGKILL);
}

}  // namespace muster::shim
