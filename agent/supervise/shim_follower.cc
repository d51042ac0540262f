#include "agent/supervise/shim_follower.h"

#include <fcntl.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "common/base/annotate.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

// Waits between looks at a shim that is known to live but does not answer: it starts, or it is
// stopped by a debugger. Its end is noticed without looking.
constexpr milliseconds kFirstProbe{5};
constexpr milliseconds kMostProbe{500};
// Committed sizes are told at most this often; they free disk space, and let more be read.
constexpr milliseconds kCommittedInterval{20};
constexpr size_t kMostErrorTextBytes = 512;
constexpr milliseconds kLongestGrace = std::chrono::hours(24 * 365);

}  // namespace

ShimFollower::~ShimFollower() { Shut(); }

void ShimFollower::Shut() {
  if (shut_) return;
  shut_ = true;
  owner_ = nullptr;
  loop_.Cancel(probe_timer_);
  loop_.Cancel(committed_timer_);
  loop_.Cancel(deaf_timer_);
  CloseBootstrap();
  CloseReady();
  if (connection_) connection_->Disconnect();
  if (pidfd_ && !child_) loop_.UnwatchFd(pidfd_.get());
  when_dead_.clear();
}

void ShimFollower::Launch(AttemptDirectory directory, const ShimCommand& command) {
  directory_.emplace(std::move(directory));
  absl::StatusOr<SpawnedShim> spawned = SpawnShim(command);
  if (!spawned.ok()) {
    Fail(fmt::format("muster-shim could not be started: {}", MessageOf(spawned.status())));
    return;
  }
  child_ = true;
  pid_ = spawned->pid;
  // One for the signals that are sent to it, one for the reaper, which keeps it beyond the
  // follower.
  pidfd_.Reset(::fcntl(spawned->pidfd.get(), F_DUPFD_CLOEXEC, 3));
  std::weak_ptr<ShimFollower> weak = weak_from_this();
  reaper_.Watch(spawned->pid, std::move(spawned->pidfd), [weak](int status) {
    if (const auto self = weak.lock()) self->OnChildEnded(status);
  });
  spdlog::debug("shim started job={} attempt={} pid={}", id_.job.value(), id_.attempt,
                spawned->pid);
  bootstrap_pipe_ = std::move(spawned->bootstrap);
  ready_pipe_ = std::move(spawned->ready);
  loop_.WatchFd(ready_pipe_.get(), EPOLLIN, [this](uint32_t) { OnReadyPipe(); });
}

void ShimFollower::Begin(const internal::ShimBootstrap& bootstrap) {
  // None: it did not start, or has ended already.
  if (!bootstrap_pipe_) return;
  bootstrap_ = bootstrap.SerializeAsString();
  loop_.WatchFd(bootstrap_pipe_.get(), EPOLLOUT, [this](uint32_t) { WriteBootstrap(); });
}

void ShimFollower::Adopt(AttemptDirectory directory, uint64_t next_index) {
  directory_.emplace(std::move(directory));
  next_index_ = next_index;
  Wake(milliseconds(0));
}

void ShimFollower::Fail(std::string reason) {
  // Whatever is noticed first of its end: this is why.
  failure_ = std::move(reason);
  loop_.Post([self = shared_from_this()] { self->OnDead(self->failure_); });
}

void ShimFollower::Wake(milliseconds delay) {
  loop_.Cancel(probe_timer_);
  std::weak_ptr<ShimFollower> weak = weak_from_this();
  probe_timer_ = loop_.PostAfter(delay, [weak] {
    if (const auto self = weak.lock()) {
      self->probe_timer_ = 0;
      self->Probe();
    }
  });
}

// Brings an incomplete picture (no process, no connection) closer to a complete one.
void ShimFollower::Probe() {
  if (dead_) return;
  if (!child_ && !pidfd_) {
    const absl::StatusOr<bool> free = directory_->TryLock();
    if (!free.ok()) spdlog::warn("shim lock error=\"{}\"", MessageOf(free.status()));
    if (free.ok() && *free) {
      OnDead("the process that supervised the ranks is gone");
      return;
    }
    FindProcess();
  }
  if (!connection_ && !ready_pipe_ && !kill_wanted_) Connect();
  if ((connection_ || kill_wanted_) && pidfd_) {
    probe_delay_ = milliseconds(0);
    return;
  }
  probe_delay_ = std::clamp(probe_delay_ * 2, kFirstProbe, kMostProbe);
  Wake(probe_delay_);
}

// Looks up the process that holds the lock. Its first record says its number; that this is still
// the same process is certain because the lock is held after the pidfd was opened.
void ShimFollower::FindProcess() {
  int pid = 0;
  const absl::Status read = directory_->ReadRecords(1, [&](const internal::ShimRecord& record) {
    pid = record.begun().pid();
    return false;
  });
  if (!read.ok() || pid <= 0) return;
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  // On any doubt the next probe looks again.
  if (!pidfd) return;
  const absl::StatusOr<bool> free = directory_->TryLock();
  if (!free.ok() || *free) return;
  WatchAdopted(std::move(pidfd));
}

void ShimFollower::WatchAdopted(UniqueFd pidfd) {
  pidfd_ = std::move(pidfd);
  loop_.WatchFd(pidfd_.get(), EPOLLIN, [this](uint32_t) {
    loop_.UnwatchFd(pidfd_.get());
    pidfd_.Reset();
    const auto self = shared_from_this();
    // The lock of a process that has ended is free; taking it keeps others out.
    (void)directory_->TryLock();
    OnDead("the process that supervised the ranks ended");
  });
  if (kill_wanted_) Kill();
}

void ShimFollower::OnChildEnded(int status) {
  child_ = false;
  pidfd_.Reset();
  const absl::StatusOr<bool> free = directory_->TryLock();
  if (free.ok() && !*free) {
    // Another shim was faster: one that an agent before this had just started. It is the one.
    CloseBootstrap();
    CloseReady();
    Probe();
    return;
  }
  std::string reason = "the process that supervised the ranks " + DescribeWaitStatus(status);
  if (next_index_ == 1) {
    reason = "muster-shim " + DescribeWaitStatus(status);
    const std::string text = ErrorText();
    if (!text.empty()) reason += ": " + text;
  }
  OnDead(failure_.empty() ? std::move(reason) : failure_);
}

void ShimFollower::Connect() {
  // Captured weakly: the follower owns the connection.
  std::weak_ptr<ShimFollower> weak = weak_from_this();
  auto connection = ShimConnection::Connect(loop_, directory_->fd(),
                                            {.record =
                                                 [weak](const internal::ShimRecord& record) {
                                                   if (const auto self = weak.lock())
                                                     self->OnRecord(record);
                                                 },
                                             .closed =
                                                 [weak](const std::string&) {
                                                   if (const auto self = weak.lock())
                                                     self->OnDisconnected();
                                                 }});
  if (!connection.ok()) {
    if (!absl::IsUnavailable(connection.status())) {
      spdlog::warn("shim connection job={} attempt={} error=\"{}\"", id_.job.value(), id_.attempt,
                   MessageOf(connection.status()));
    }
    return;
  }
  connection_ = *std::move(connection);
  SendState();
}

void ShimFollower::Disconnect() {
  if (!connection_) return;
  connection_->Disconnect();
  // Destroyed in a later turn: this may be one of its callbacks.
  loop_.Post([connection = std::shared_ptr<ShimConnection>(std::move(connection_))] {});
}

void ShimFollower::OnDisconnected() {
  Disconnect();
  if (!dead_) Wake(kFirstProbe);
}

void ShimFollower::OnRecord(const internal::ShimRecord& record) {
  if (record.has_logs_grew()) {
    if (!dead_ && owner_ != nullptr) owner_->OnLogsGrew(*this, record.logs_grew());
    return;
  }
  if (dead_ || record.index() < next_index_) return;
  if (record.index() > next_index_) {
    spdlog::error("shim record gap job={} attempt={} expected={} got={}", id_.job.value(),
                  id_.attempt, next_index_, record.index());
    OnDisconnected();
    return;
  }
  ++next_index_;
  finished_ = finished_ || record.has_stopped() || record.has_prepare_failed();
  if (owner_ != nullptr) owner_->OnShimRecord(*this, record);
}

void ShimFollower::OnDead(std::string reason) {
  if (dead_) return;
  const auto self = shared_from_this();
  Disconnect();
  CloseBootstrap();
  CloseReady();
  // What it recorded and could not tell. Read before `dead_` is set: OnRecord looks at that.
  if (directory_ && owner_ != nullptr) {
    const absl::Status read =
        directory_->ReadRecords(next_index_, [&](const internal::ShimRecord& record) {
          OnRecord(record);
          return owner_ != nullptr;
        });
    if (!read.ok()) {
      spdlog::error("shim records job={} attempt={} error=\"{}\"", id_.job.value(), id_.attempt,
                    MessageOf(read));
      reason += fmt::format(" ({})", MessageOf(read));
    }
  }
  dead_ = true;
  loop_.Cancel(std::exchange(probe_timer_, 0));
  if (owner_ != nullptr) owner_->OnShimGone(*this, reason);
  for (auto& task : std::exchange(when_dead_, {})) task(true);
}

void ShimFollower::WriteBootstrap() {
  while (bootstrap_sent_ < bootstrap_.size()) {
    const ssize_t sent = ::write(bootstrap_pipe_.get(), bootstrap_.data() + bootstrap_sent_,
                                 bootstrap_.size() - bootstrap_sent_);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return;
      break;  // The shim died; its end is noticed elsewhere.
    }
    bootstrap_sent_ += static_cast<size_t>(sent);
  }
  CloseBootstrap();
}

// A byte, or the end: the socket listens.
void ShimFollower::OnReadyPipe() {
  std::array<char, 64> bytes;
  const ssize_t got = ::read(ready_pipe_.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  CloseReady();
  Probe();
}

void ShimFollower::CloseBootstrap() {
  if (bootstrap_pipe_) loop_.UnwatchFd(bootstrap_pipe_.get());
  bootstrap_pipe_.Reset();
  // Megabytes, perhaps.
  std::string().swap(bootstrap_);
}

void ShimFollower::CloseReady() {
  if (ready_pipe_) loop_.UnwatchFd(ready_pipe_.get());
  ready_pipe_.Reset();
}

void ShimFollower::Run(internal::ShimRun run) {
  // Kept requests are repeated in a fixed order, Run before Stop; what was stopped never runs.
  if (stop_grace_) return;
  run_ = std::move(run);
  internal::ShimRequest request;
  *request.mutable_run() = *run_;
  Send(request);
}

void ShimFollower::Stop(milliseconds grace, const std::string& reason) {
  // The first stop is what ends the ranks, so that its reason stays.
  if (!stop_grace_) stop_reason_ = reason;
  const bool sooner = !stop_grace_ || grace < *stop_grace_;
  stop_grace_ = stop_grace_ ? std::min(*stop_grace_, grace) : grace;
  SendStop();
  if (!sooner || *stop_grace_ > kLongestGrace) return;
  loop_.Cancel(std::exchange(deaf_timer_, 0));
  std::weak_ptr<ShimFollower> weak = weak_from_this();
  deaf_timer_ = loop_.PostAfter(*stop_grace_ + stop_limit_, [weak] {
    const auto self = weak.lock();
    if (!self) return;
    self->deaf_timer_ = 0;
    if (self->finished_ || self->dead_) return;
    spdlog::error("shim does not stop its ranks, killed job={} attempt={}", self->id_.job.value(),
                  self->id_.attempt);
    self->Kill();
  });
}

void ShimFollower::SendStop() {
  internal::ShimRequest request;
  request.mutable_stop()->set_grace_ms(
      static_cast<uint64_t>(std::max<int64_t>(stop_grace_->count(), 0)));
  request.mutable_stop()->set_reason(stop_reason_);
  Send(request);
}

void ShimFollower::Signal(int signal, const std::vector<uint32_t>& ranks) {
  internal::ShimRequest request;
  request.mutable_signal()->set_signal(signal);
  for (const uint32_t rank : ranks) request.mutable_signal()->add_ranks(rank);
  Send(request);
}

void ShimFollower::Renew(milliseconds lease) {
  internal::ShimRequest request;
  request.mutable_renew()->set_lease_ms(static_cast<uint64_t>(std::max<int64_t>(lease.count(), 1)));
  Send(request);
}

void ShimFollower::Committed(uint32_t rank, uint64_t bytes) {
  committed_[rank] = bytes;
  committed_news_[rank] = bytes;
  if (committed_timer_ == 0) SendCommitted();
}

void ShimFollower::SendCommitted() {
  for (const auto& [rank, bytes] : std::exchange(committed_news_, {})) {
    internal::ShimRequest request;
    request.mutable_committed()->set_rank(rank);
    request.mutable_committed()->set_size(bytes);
    Send(request);
  }
  std::weak_ptr<ShimFollower> weak = weak_from_this();
  committed_timer_ = loop_.PostAfter(kCommittedInterval, [weak] {
    const auto self = weak.lock();
    if (!self) return;
    self->committed_timer_ = 0;
    if (!self->committed_news_.empty()) self->SendCommitted();
  });
}

void ShimFollower::Quit() {
  quit_ = true;
  internal::ShimRequest request;
  request.mutable_quit();
  Send(request);
}

void ShimFollower::Send(const internal::ShimRequest& request) {
  if (connection_) connection_->Send(request);
}

void ShimFollower::SendState() {
  internal::ShimRequest request;
  request.mutable_attach()->set_next_index(next_index_);
  Send(request);
  if (run_) {
    *request.mutable_run() = *run_;
    Send(request);
  }
  if (stop_grace_) SendStop();
  committed_news_ = committed_;
  if (committed_timer_ == 0 && !committed_.empty()) SendCommitted();
  if (quit_) Quit();
}

void ShimFollower::Kill() {
  if (dead_) return;
  kill_wanted_ = true;
  // Without a process, the probe finds it first. ESRCH: it has ended, and that is about to be
  // noticed.
  if (pidfd_) (void)::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

void ShimFollower::WhenDead(milliseconds limit, std::function<void(bool)> task) {
  auto once = std::make_shared<std::function<void(bool)>>(std::move(task));
  const auto run = [once](bool dead) {
    if (const auto call = std::exchange(*once, nullptr)) call(dead);
  };
  if (dead_) {
    loop_.Post([run] { run(true); });
    return;
  }
  when_dead_.push_back(run);
  // Keeps the follower until then.
  loop_.PostAfter(limit, [self = shared_from_this(), run] { run(false); });
}

// What the shim printed, in one line.
std::string ShimFollower::ErrorText() const {
  std::string text = directory_->ReadText(kShimErrorFile, kMostErrorTextBytes);
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace muster
