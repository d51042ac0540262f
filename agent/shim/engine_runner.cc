#include "agent/shim/engine_runner.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/shim/text.h"

namespace muster::shim {
namespace {

constexpr size_t kMostOutputBytes = size_t{256} << 10;

SteadyTime Now() { return std::chrono::steady_clock::now(); }

// A command and what it has started, as a wrapper of the engine does. It leads a session of its own
// unless it was started this very moment. Reaped as any child.
void KillWithGroup(pid_t pid) {
  (void)::kill(pid, SIGKILL);
  (void)::kill(-pid, SIGKILL);
}

}  // namespace

void EngineRunner::Configure(const internal::ShimEngine& engine, std::optional<UserIds> user) {
  program_ = engine.program();
  name_ = engine.name();
  options_ = engine.options();
  env_ = engine.env();
  user_ = std::move(user);
}

void EngineRunner::Run(const std::vector<std::string>& words, milliseconds limit, Done done) {
  static const std::string kDirectory = "/";
  Strings argv;
  *argv.Add() = program_;
  argv.MergeFrom(options_);
  for (const std::string& word : words) *argv.Add() = word;
  SpawnRequest request;
  request.path = &program_;
  request.argv = &argv;
  request.env = &env_;
  request.working_directory = &kDirectory;
  if (user_) request.user = &*user_;
  request.pipe_bytes = 0;
  Spawned spawned;
  Call call;
  call.what = name_ + " " + words.front() +
              (words.size() > 1 && !words[1].starts_with('-') ? " " + Printable(words[1], 40) : "");
  if (const std::optional<SpawnFailure> failure = Spawn(request, spawned)) {
    done({.problem = call.what + " cannot be started: " + failure->step + ": " +
                     ErrnoText(failure->error_number)});
    return;
  }
  call.pid = spawned.pid;
  call.end = Now() + limit;
  call.out_fd = std::move(spawned.stdout_fd);
  call.err_fd = std::move(spawned.stderr_fd);
  call.exec_status_fd = std::move(spawned.exec_status_fd);
  call.done = std::move(done);
  calls_.push_back(std::move(call));
  Call& kept = calls_.back();
  if (!Watch(kept.out_fd, kept.out) || !Watch(kept.err_fd, kept.err)) {
    // Read when it has ended; what does not fit into a pipe ends by the time limit.
    Complain("cannot watch the output of " + kept.what + ": " + ErrnoText(errno));
  }
}

bool EngineRunner::Watch(UniqueFd& fd, std::string& text) {
  // Both live as long as the call, which is a node of a list.
  return poller_.Watch(fd.get(), EPOLLIN, [this, &fd, &text](uint32_t) { Read(fd, text); });
}

void EngineRunner::Read(UniqueFd& fd, std::string& text) {
  char chunk[16 * 1024];
  const ssize_t count = ::read(fd.get(), chunk, sizeof(chunk));
  if (count < 0) return;
  if (count == 0) {
    Close(fd);
    return;
  }
  text.append(chunk, std::min(static_cast<size_t>(count), kMostOutputBytes - text.size()));
}

void EngineRunner::Close(UniqueFd& fd) {
  if (!fd) return;
  poller_.Unwatch(fd.get());
  fd.Reset();
}

void EngineRunner::OnReaped(const siginfo_t& info) {
  const auto call = std::find_if(calls_.begin(), calls_.end(),
                                 [&](const Call& one) { return one.pid == info.si_pid; });
  if (call == calls_.end()) return;
  // What is in the pipes now. Not until they end: something that it left behind may hold them.
  for (auto [fd, text] : {std::pair(&call->out_fd, &call->out), {&call->err_fd, &call->err}}) {
    for (size_t before = text->size() + 1; *fd && text->size() != before;) {
      before = text->size();
      Read(*fd, *text);
    }
  }
  SpawnFailure failure;
  // An engine is asked to be nowhere in particular.
  std::vector<SpawnFailure> skipped;
  if (ReadExecStatus(call->exec_status_fd.get(), failure, skipped) == ExecStatus::kFailed) {
    const bool missing = failure.step == "execve" &&
                         (failure.error_number == ENOENT || failure.error_number == ENOTDIR);
    Finish(call, false,
           "cannot be started: " + failure.step + ": " + ErrnoText(failure.error_number), missing);
  } else if (info.si_code != CLD_EXITED) {
    Finish(call, false, "was killed by signal " + std::to_string(info.si_status));
  } else {
    Finish(call, info.si_status == 0, "ended with code " + std::to_string(info.si_status));
  }
}

void EngineRunner::Finish(Calls::iterator call, bool ok, const std::string& how, bool missing) {
  Result result{.ok = ok, .out = std::move(call->out), .problem = {}, .missing = missing};
  if (!ok) {
    result.problem = call->what + " " + how;
    const std::string said = LastWords(call->err);
    if (!said.empty()) result.problem += ": " + said;
  }
  Close(call->out_fd);
  Close(call->err_fd);
  const Done done = std::move(call->done);
  calls_.erase(call);
  done(result);
}

void EngineRunner::OnTime(SteadyTime now) {
  while (true) {
    const auto late = std::find_if(calls_.begin(), calls_.end(),
                                   [&](const Call& call) { return now >= call.end; });
    if (late == calls_.end()) return;
    KillWithGroup(late->pid);
    Finish(late, false, "does not answer");
  }
}

std::optional<SteadyTime> EngineRunner::deadline() const {
  std::optional<SteadyTime> next;
  for (const Call& call : calls_) next = next ? std::min(*next, call.end) : call.end;
  return next;
}

std::set<pid_t> EngineRunner::pids() const {
  std::set<pid_t> pids;
  for (const Call& call : calls_) pids.insert(call.pid);
  return pids;
}

void EngineRunner::Abandon() {
  for (Call& call : calls_) {
    KillWithGroup(call.pid);
    Close(call.out_fd);
    Close(call.err_fd);
  }
  calls_.clear();
}

}  // namespace muster::shim
