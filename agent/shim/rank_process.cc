#include "agent/shim/rank_process.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>
#include <vector>

#include "agent/shim/process_tree.h"
#include "agent/shim/text.h"

namespace muster::shim {
namespace {

// What is read of one pipe after the end of everything that may write to it; pipes hold at most 1
// MiB.
constexpr size_t kSaidBytes = 2048;
constexpr size_t kDrainBytes = size_t{4} << 20;

int64_t WallNs() {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// A file without a name, to be read from its beginning.
UniqueFd MemoryFile(const std::string& bytes) {
  UniqueFd fd(::memfd_create("muster-env", MFD_CLOEXEC));
  size_t done = 0;
  while (fd && done < bytes.size()) {
    const ssize_t count = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return {};
    done += static_cast<size_t>(count);
  }
  if (fd) (void)::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

}  // namespace

int PipeBytesFor(size_t ranks) {
  // Half of what /proc/sys/fs/pipe-user-pages-soft grants by default; beyond that every new pipe of
  // the user would have two pages only.
  constexpr size_t kAllPipesBytes = size_t{32} << 20;
  size_t bytes = size_t{1} << 20;
  while (bytes > (size_t{64} << 10) && bytes * 2 * ranks > kAllPipesBytes) bytes /= 2;
  return static_cast<int>(bytes);
}

RankProcess::RankProcess(RankEnvironment& environment, internal::ShimRank spec)
    : environment_(environment), spec_(std::move(spec)) {}

RankProcess::~RankProcess() {
  for (UniqueFd* fd : {&stdout_, &stderr_, &exec_status_}) CloseStream(*fd);
  cgroup_.Remove();
}

void RankProcess::SetLog(std::string path, uint64_t quota_bytes) {
  log_.Begin(std::move(path), quota_bytes, environment_.inherited.file_size_limit);
}

void RankProcess::Start(const Strings& added) {
  MergeEnv(*spec_.mutable_env(), added);
  SpawnRequest request;
  request.path = &path_;
  request.argv = &spec_.argv();
  request.env = &spec_.env();
  request.working_directory = &environment_.working_directory;
  if (environment_.user) request.user = &*environment_.user;
  request.cgroup_fd = cgroup_.fd();
  request.oom_score_adj = environment_.inherited.rank_oom_score_adj;
  request.cpus = &spec_.cpus();
  if (spec_.has_memory_node()) request.memory_node = spec_.memory_node();
  request.pipe_bytes = environment_.pipe_bytes;
  Spawned spawned;
  UniqueFd input;
  std::optional<SpawnFailure> failure;
  if (!spec_.env_file().empty()) {
    input = MemoryFile(spec_.env_file());
    if (!input) failure = SpawnFailure{"memfd", errno};
    request.stdin_fd = input.get();
    spec_.clear_env_file();
  }
  if (!failure) failure = Spawn(request, spawned);
  largest_string_ = DescribeLargestString(spec_.argv(), spec_.env());
  spec_.clear_argv();
  spec_.clear_env();
  spec_.clear_cpus();
  // A field that was cleared keeps its memory for later use.
  spec_ = internal::ShimRank(spec_);
  if (failure) {
    failure_ = failure;
    RecordStartFailure(*failure);
    CloseLog();
    return;
  }
  pid_ = spawned.pid;
  stdout_ = std::move(spawned.stdout_fd);
  stderr_ = std::move(spawned.stderr_fd);
  exec_status_ = std::move(spawned.exec_status_fd);
  WatchOutput(stdout_, FrameKind::kStdout);
  WatchOutput(stderr_, FrameKind::kStderr);
  // If the kernel refuses to watch it, it is read when the process has ended.
  (void)environment_.poller->Watch(exec_status_.get(), EPOLLIN,
                                   [this](uint32_t) { TakeExecStatus(); });
}

void RankProcess::TakeExecStatus() {
  if (!exec_status_) return;
  SpawnFailure failure;
  std::vector<SpawnFailure> skipped;
  const ExecStatus status = ReadExecStatus(exec_status_.get(), failure, skipped);
  for (const SpawnFailure& step : skipped) {
    Complain("rank " + std::to_string(number()) + " runs without its " +
             (step.step == "set_mempolicy" ? "memory node" : "processors") + ": " + step.step +
             " failed: " + ErrnoText(step.error_number));
  }
  switch (status) {
    case ExecStatus::kPending:
      return;
    case ExecStatus::kFailed:
      // The child ends by itself now; what it failed at becomes its end then.
      failure_ = failure;
      break;
    case ExecStatus::kExecuted: {
      internal::ShimRecord record;
      internal::ShimRankStarted& started = *record.mutable_rank_started();
      started.set_rank(number());
      started.set_pid(pid_);
      // Works for a zombie too, so it never fails before the process is reaped.
      if (const auto process = ReadProcess(pid_)) started.set_start_ticks(process->start_ticks);
      environment_.journal->Add(std::move(record), /*durable=*/false);
      break;
    }
  }
  CloseStream(exec_status_);
}

void RankProcess::OnReaped(const siginfo_t& info) {
  reaped_ = true;
  if (!end_is_believed_) return;
  if (failure_) {
    RecordStartFailure(*failure_);
  } else {
    internal::ShimRankExited exited;
    exited.set_rank(number());
    exited.set_value(info.si_status);
    if (info.si_code == CLD_EXITED) {
      exited.set_kind(internal::ShimRankExited::CODE);
    } else {
      exited.set_kind(internal::ShimRankExited::SIGNAL);
      exited.set_core_dumped(info.si_code == CLD_DUMPED);
      exited.set_oom_killed(
          info.si_status == SIGKILL && !killed_ &&
          (cgroup_.OomKills() > 0 || environment_.oom_watch.WasKilled(info.si_pid)));
    }
    RecordEnd(std::move(exited));
  }
  CloseLogWhenComplete();
}

void RankProcess::RecordEnd(internal::ShimRankExited exited) {
  if (ended_) return;
  const bool well = exited.kind() == internal::ShimRankExited::CODE && exited.value() == 0;
  if (!well && environment_.card_problem) {
    exited.set_card_problem(environment_.card_problem(slot()));
  }
  internal::ShimRecord record;
  *record.mutable_rank_exited() = std::move(exited);
  environment_.journal->Add(std::move(record), /*durable=*/true);
  ended_ = true;
  CloseLogWhenComplete();
}

void RankProcess::RecordStartFailure(const SpawnFailure& failure) {
  internal::ShimRecord record;
  internal::ShimRankExited& exited = *record.mutable_rank_exited();
  exited.set_rank(number());
  exited.set_kind(internal::ShimRankExited::EXEC_FAILED);
  exited.set_value(failure.error_number);
  exited.set_step(failure.step);
  exited.set_message(DescribeFailure(failure));
  environment_.journal->Add(std::move(record), /*durable=*/true);
  ended_ = true;
}

std::string RankProcess::DescribeFailure(const SpawnFailure& failure) const {
  const std::string reason = ErrnoText(failure.error_number);
  if (failure.step == "chdir") {
    return "cannot enter the working directory " + Quoted(environment_.working_directory) + ": " +
           reason;
  }
  if (failure.step != "execve") {
    return "cannot start a process: step " + failure.step + " failed: " + reason;
  }
  std::string text = "cannot execute " + Quoted(path_) + ": " + reason;
  if (failure.error_number == E2BIG) {
    text += "; arguments and environment are too long, the largest is " + largest_string_;
  } else if (failure.error_number == ENOEXEC) {
    text += "; a script needs a first line such as #!/bin/sh";
  }
  return text;
}

void RankProcess::Signal(int signal) {
  // The pid cannot belong to another process before it is reaped here.
  if (alive()) (void)::kill(pid_, signal);
}

void RankProcess::Terminate() {
  if (terminated_) return;
  terminated_ = true;
  Signal(SIGTERM);
  Signal(SIGCONT);
}

void RankProcess::Kill() {
  killed_ = true;
  Signal(SIGKILL);
}

void RankProcess::WatchOutput(UniqueFd& fd, FrameKind stream) {
  const bool watched = environment_.poller->Watch(
      fd.get(), EPOLLIN, [this, &fd, stream](uint32_t) { OnOutput(fd, stream); });
  if (watched) return;
  // Never leave a rank with a pipe that nobody reads: it would stand still without a word.
  Complain("cannot watch the output of rank " + std::to_string(number()) + ": " + ErrnoText(errno));
  Kill();
}

void RankProcess::OnOutput(UniqueFd& fd, FrameKind stream) {
  size_t count = 0;
  // One read for one turn of the loop: a flood cannot keep the other ranks waiting.
  if (!ReadOnce(fd, stream, RankEnvironment::kBufferBytes, count)) {
    CloseStream(fd);
    CloseLogWhenComplete();
  }
}

// Reads once and stores what came; false at the end of the stream. `count` 0: nothing was there.
bool RankProcess::ReadOnce(UniqueFd& fd, FrameKind stream, size_t max_bytes, size_t& count) {
  count = 0;
  const ssize_t result = ::read(fd.get(), environment_.buffer.get(), max_bytes);
  if (result < 0) return errno == EAGAIN || errno == EINTR;
  if (result == 0) return false;
  count = static_cast<size_t>(result);
  if (stream == FrameKind::kStderr && !container().empty()) {
    said_.append(environment_.buffer.get(), count);
    if (said_.size() > kSaidBytes) said_.erase(0, said_.size() - kSaidBytes);
  }
  log_.Write(stream, {environment_.buffer.get(), count}, WallNs(),
             std::chrono::steady_clock::now());
  environment_.growth->Note(number(), log_.fixed_bytes());
  return true;
}

std::string RankProcess::LastWordsOfClient() {
  // It has ended: what it wrote is here or in the pipe.
  size_t count = 0;
  for (size_t total = 0; stderr_ && total < kDrainBytes; total += count) {
    if (!ReadOnce(stderr_, FrameKind::kStderr, RankEnvironment::kBufferBytes, count)) {
      CloseStream(stderr_);
    }
    if (count == 0) break;
  }
  return LastWords(said_);
}

void RankProcess::CloseStream(UniqueFd& fd) {
  if (!fd) return;
  environment_.poller->Unwatch(fd.get());
  fd.Reset();
}

void RankProcess::CloseLogWhenComplete() {
  if (ended_ && !stdout_ && !stderr_) CloseLog();
}

void RankProcess::CloseLog() {
  if (log_closed_) return;
  log_closed_ = true;
  for (const auto& [fd, stream] :
       {std::pair(&stdout_, FrameKind::kStdout), std::pair(&stderr_, FrameKind::kStderr)}) {
    size_t total = 0;
    size_t count = 0;
    while (*fd && total < kDrainBytes &&
           ReadOnce(*fd, stream, RankEnvironment::kBufferBytes, count) && count > 0) {
      total += count;
    }
    CloseStream(*fd);
  }
  log_.Close(WallNs());
  internal::ShimRecord record;
  internal::ShimLogClosed& closed = *record.mutable_log_closed();
  closed.set_rank(number());
  closed.set_size(log_.size_bytes());
  closed.set_written_bytes(log_.written_bytes());
  closed.set_dropped_bytes(log_.dropped_bytes());
  environment_.journal->Add(std::move(record), /*durable=*/false);
  if (log_.dropped_bytes() > 0) {
    Complain("rank " + std::to_string(number()) + ": " + std::to_string(log_.dropped_bytes()) +
             " bytes of output were dropped: " + log_.drop_reason());
  }
}

}  // namespace muster::shim
