#include "coordinator/rpc/log_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/rpc/grpc_status.h"
#include "common/rpc/limits.h"

namespace muster {
namespace {

using SteadyClock = std::chrono::steady_clock;

// How long changes are gathered before the states of all ranks are looked at again: that costs time
// in proportion to the ranks. Small jobs are looked at at once.
Duration RefreshDelay(size_t ranks) {
  return ranks <= 256 ? Duration::zero() : std::chrono::milliseconds(ranks / 100);
}

}  // namespace

LogReader::LogReader(const ServiceContext& services, grpc::CallbackServerContext* call,
                     Caller caller, v1::ReadLogsRequest request, LogReaderHub& hub)
    : StreamReactor(services, call),
      job_(request.job_id()),
      caller_(std::move(caller)),
      request_(std::move(request)),
      filter_(FilterOf(request_)),
      known_(KnownOf(request_)),
      hub_(hub),
      queue_(request_.follow()) {}

void LogReader::Begin() {
  hub_.Add(job_, this);
  listening_ = true;
  if (!filter_.ok()) {
    Close(filter_.status());
    return;
  }
  NextAttempt();
}

void LogReader::Ended() {
  if (listening_) hub_.Remove(job_, this);
  services().logs.RemoveListener(attempt_, this);
}

// --- Loop ---

void LogReader::NextAttempt() {
  if (closing_) return;
  const auto shape = services().core.ShapeOf(job_);
  if (!shape.has_value() || !services().core.MaySee(job_, caller_)) {
    Close(absl::NotFoundError(fmt::format("there is no job {}", job_.value())));
    return;
  }
  if (request_.attempt() > shape->attempts && !request_.follow()) {
    Close(absl::NotFoundError(
        fmt::format("job {} has no attempt {}", job_.value(), request_.attempt())));
    return;
  }
  const uint32_t wanted = WantedAttempt(shape->attempts);
  if (wanted != 0 && wanted <= shape->attempts && wanted != attempt_.attempt) {
    waiting_for_attempt_ = false;
    const absl::Status started = StartAttempt(wanted);
    if (!started.ok()) Close(started);
    return;
  }
  // Everything of the attempts so far was sent. Those who asked for one attempt, or for what is
  // there, have it all.
  const bool more = request_.follow() && (request_.attempt() == 0 || attempt_.attempt == 0) &&
                    !services().core.HasEnded(job_);
  if (!more) {
    Close(absl::OkStatus());
    return;
  }
  waiting_for_attempt_ = true;
}

uint32_t LogReader::WantedAttempt(uint32_t newest) const {
  if (request_.attempt() != 0) return request_.attempt();
  if (!request_.follow()) return newest;
  // One after the other, also for a client that was slow, or away: attempts may end quickly.
  if (attempt_.attempt != 0) return std::min(attempt_.attempt + 1, newest);
  uint32_t begun = 0;
  for (const auto& [log, offset] : known_) begun = std::max(begun, log.first);
  return begun != 0 ? std::min(begun, newest) : newest;
}

absl::Status LogReader::StartAttempt(uint32_t attempt) {
  services().logs.RemoveListener(attempt_, this);
  const AttemptId id{job_, attempt};
  const auto exists = [&](uint32_t rank) {
    return services().core.LogState(id, Rank{rank}).has_value();
  };
  std::vector<uint32_t> wanted(request_.ranks().begin(), request_.ranks().end());
  if (wanted.empty()) {
    for (uint32_t rank = 0; exists(rank); ++rank) wanted.push_back(rank);
  }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  for (const uint32_t rank : wanted) {
    if (!exists(rank)) {
      return absl::InvalidArgumentError(
          fmt::format("attempt {} of job {} has no rank {}", attempt, job_.value(), rank));
    }
  }
  // Before the sizes are looked up: growth in between must not go unnoticed.
  if (request_.follow()) {
    services().logs.AddListener(id, std::shared_ptr<LogListener>(shared_from_this(), this));
  }
  {
    MutexLock lock(mutex_);
    attempt_ = id;
    if (first_attempt_ == 0) first_attempt_ = attempt;
    selections_.clear();
    selections_.resize(wanted.size());
    tails_.assign(wanted.size(), false);
    queue_.Reset(wanted);
  }
  RefreshStates();
  return absl::OkStatus();
}

void LogReader::OnJobLogsChanged() {
  if (closing_ || refresh_posted_) return;
  refresh_posted_ = true;
  size_t ranks = 0;
  {
    MutexLock lock(mutex_);
    ranks = queue_.size();
  }
  services().loop.PostAfter(RefreshDelay(ranks), [self = shared_from_this(), this] {
    refresh_posted_ = false;
    if (closing_) return;
    if (waiting_for_attempt_ || attempt_.attempt == 0) {
      NextAttempt();
    } else {
      RefreshStates();
    }
  });
}

void LogReader::RefreshStates() {
  const bool ended = services().core.HasEnded(job_);
  {
    MutexLock lock(mutex_);
    for (size_t i = 0; i < queue_.size(); ++i) {
      const LogReadQueue::Log& log = queue_.log(i);
      if (log.ended) continue;
      const std::optional<RankLogState> known = services().core.LogState(attempt_, log.rank);
      RankLogState state = known.value_or(RankLogState{.abandoned = true});
      // Nobody waits for a disk that may stay full once the job is over.
      if (ended && services().logs.Blocked({attempt_, log.rank})) state.abandoned = true;
      queue_.SetState(i, state);
    }
  }
  PostPump();
  if (ended && request_.follow()) WatchForStall();
}

void LogReader::WatchForStall() {
  if (std::exchange(stall_watched_, true)) return;
  {
    MutexLock lock(mutex_);
    last_progress_ = queue_.progress();
  }
  services().loop.PostAfter(kPatience, [self = shared_from_this(), this] {
    stall_watched_ = false;
    if (closing_) return;
    bool stalled = false;
    {
      MutexLock lock(mutex_);
      stalled =
          queue_.progress() == last_progress_ && !waiting_for_client_ && queue_.open_logs() > 0;
    }
    if (stalled) {
      GiveUp();
    } else {
      RefreshStates();
    }
  });
}

void LogReader::GiveUp() {
  {
    MutexLock lock(mutex_);
    queue_.AbandonAll();
  }
  PostPump();
}

void LogReader::Close(absl::Status status) {
  if (std::exchange(closing_, true)) return;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  // Without a limit: a client may take its time to read what is on its way.
  outbound_.CloseAfterFlush([this, status = ToGrpc(status)](bool) { FinishCall(status); });
}

// --- Any thread ---

void LogReader::OnCancel() {
  OnLoop([this] {
    Close(absl::CancelledError());
    outbound_.Close([](bool) {});
  });
}

void LogReader::OnWriteDone(bool ok) {
  outbound_.OnWriteDone(ok);
  {
    MutexLock lock(mutex_);
    if (!waiting_for_client_ || ClientIsBehind()) return;
    waiting_for_client_ = false;
  }
  PostPump();
}

void LogReader::OnLogGrowth(const StoredLogId& file, uint64_t committed) {
  {
    MutexLock lock(mutex_);
    if (file.attempt != attempt_ || !queue_.Grow(file.rank, committed)) return;
  }
  PostPump();
}

bool LogReader::ClientIsBehind() const {
  return outbound_.queued_bytes() >= kMaxQueuedBytes ||
         outbound_.queued_messages() >= kMaxQueuedMessages;
}

void LogReader::PostPump() {
  {
    MutexLock lock(mutex_);
    if (pumping_ || stopped_ || waiting_for_client_ || !queue_.has_ready()) return;
    pumping_ = true;
  }
  PostPumpTask();
}

void LogReader::PostPumpTask() {
  auto pump = [self = shared_from_this(), this] { Pump(); };
  if (searches()) {
    services().logs.PostSearch(std::move(pump));
  } else {
    services().logs.PostRead(std::move(pump));
  }
}

// --- Reading thread ---

void LogReader::Pump() {
  const auto begin = SteadyClock::now();
  uint64_t pumped = 0;
  for (;;) {
    std::optional<LogReadQueue::Turn> turn;
    {
      MutexLock lock(mutex_);
      // First the mark, then the look: a write that ends in between sees the mark.
      waiting_for_client_ = true;
      const bool full = ClientIsBehind();
      if (!full) waiting_for_client_ = false;
      if (!full && !stopped_) turn = queue_.Take();
      if (!turn.has_value()) {
        pumping_ = false;
        return;
      }
    }
    // Without the lock: reading may take its time.
    if (!SendNext(*turn)) return;
    LogReadQueue::After after;
    {
      MutexLock lock(mutex_);
      const uint64_t before = queue_.progress();
      after = queue_.Put(*turn);
      pumped += queue_.progress() - before;
      // Nobody touches the logs of this attempt any more: the loop may begin the next one.
      if (after == LogReadQueue::After::kAllEnded) pumping_ = false;
    }
    if (after != LogReadQueue::After::kOpen) SendEnd(*turn);
    if (after == LogReadQueue::After::kAllEnded) {
      OnLoop([this] { NextAttempt(); });
      return;
    }
    if (pumped >= kMaxPumpedBytes || (searches() && SteadyClock::now() >= begin + kSearchTime)) {
      PostPumpTask();
      return;
    }
  }
}

bool LogReader::SendNext(LogReadQueue::Turn& turn) {
  absl::Status status;
  if (!turn.log.opened) status = OpenLog(turn);
  LogSelection* const selection = selections_[turn.index].get();
  if (status.ok() && turn.log.position < turn.log.stored) {
    status = selection != nullptr ? SendSelected(turn.log, *selection) : SendPiece(turn.log);
    if (status.ok()) TellBeginning(turn);
  }
  if (status.ok()) return true;
  {
    MutexLock lock(mutex_);
    pumping_ = false;
    stopped_ = true;
  }
  OnLoop([this, status] { Close(status); });
  return false;
}

absl::Status LogReader::OpenLog(LogReadQueue::Turn& turn) {
  LogReadQueue::Log& log = turn.log;
  log.opened = true;
  const StoredLogId file{attempt_, log.rank};
  log.stored = std::max(log.stored, services().logs.CommittedSize(file));
  const auto known = known_.find({attempt_.attempt, log.rank.value});
  const bool anew = known == known_.end();
  uint64_t begin = 0;
  if (request_.tail_bytes() != 0 && anew) {
    absl::StatusOr<uint64_t> start = services().logs.TailStart(file, request_.tail_bytes());
    if (!start.ok()) return start.status();
    begin = *start;
  }
  tails_[turn.index] =
      anew && request_.follow() && (request_.tail_bytes() != 0 || request_.has_tail_lines());
  if (!filter_->has_value()) {
    log.position = anew ? begin : known->second;
    if (tails_[turn.index]) (void)outbound_.Send(ResponseFor(log, log.position));
    return absl::OkStatus();
  }
  LogSelection::Start start{.offset = begin, .known = anew ? 0 : known->second};
  if (request_.has_tail_lines() && anew && attempt_.attempt == first_attempt_) {
    start.last_lines = request_.tail_lines();
    start.stored = log.stored;
  }
  selections_[turn.index] = std::make_unique<LogSelection>(**filter_, start);
  TellBeginning(turn);
  return absl::OkStatus();
}

void LogReader::TellBeginning(const LogReadQueue::Turn& turn) {
  LogSelection* const selection = selections_[turn.index].get();
  if (!tails_[turn.index] || selection == nullptr || !selection->PassBeginning()) return;
  v1::ReadLogsResponse response = ResponseFor(turn.log, selection->position());
  (void)outbound_.Send(std::move(response));
}

v1::ReadLogsResponse LogReader::ResponseFor(const LogReadQueue::Log& log, uint64_t offset) const {
  v1::ReadLogsResponse response;
  response.set_attempt(attempt_.attempt);
  response.set_rank(log.rank.value);
  response.set_offset(offset);
  return response;
}

absl::StatusOr<LogPiece> LogReader::Read(Rank rank, uint64_t offset, uint64_t end) const {
  const StoredLogId file{attempt_, rank};
  if (filter_->has_value() || request_.sparse()) {
    return services().logs.ReadSparse(file, offset, end,
                                      searches() ? kMaxSearchedBytes : kMaxLogChunkBytes);
  }
  absl::StatusOr<std::string> data =
      services().logs.Read(file, offset, std::min<uint64_t>(kMaxLogChunkBytes, end - offset));
  if (!data.ok()) return data.status();
  return LogPiece{.data = *std::move(data)};
}

absl::Status LogReader::SendPiece(LogReadQueue::Log& log) {
  absl::StatusOr<LogPiece> piece = Read(log.rank, log.position, log.stored);
  if (!piece.ok()) return piece.status();
  v1::ReadLogsResponse response = ResponseFor(log, log.position);
  log.position += piece->size();
  response.set_data(std::move(piece->data));
  response.set_zeros(piece->zeros);
  // Full cannot be: the pump has looked. Closed: nobody wants it.
  (void)outbound_.Send(std::move(response));
  return absl::OkStatus();
}

absl::Status LogReader::SendSelected(LogReadQueue::Log& log, LogSelection& selection) {
  if (!selection.counting() && selection.damaged_at().has_value()) {
    log.position = log.stored;
    return absl::OkStatus();
  }
  const bool counting = selection.counting();
  const absl::StatusOr<LogPiece> piece =
      Read(log.rank, selection.next(), selection.pass_end(log.stored));
  if (!piece.ok()) return piece.status();
  std::string selected;
  selection.Take(piece->data, piece->zeros, &selected);
  if (counting) {
    log.counted += piece->size();
    return absl::OkStatus();
  }
  log.position += piece->size();
  const uint64_t begin = selection.position() - selected.size();
  for (size_t sent = 0; sent < selected.size(); sent += kMaxLogChunkBytes) {
    v1::ReadLogsResponse response = ResponseFor(log, begin + sent);
    response.set_data(selected.substr(sent, kMaxLogChunkBytes));
    (void)outbound_.Send(std::move(response));
  }
  if (selection.damaged_at().has_value()) {
    v1::ReadLogsResponse response = ResponseFor(log, selection.position());
    response.set_damaged_at(*selection.damaged_at());
    (void)outbound_.Send(std::move(response));
  }
  return absl::OkStatus();
}

void LogReader::SendEnd(const LogReadQueue::Turn& turn) {
  const LogReadQueue::Log& log = turn.log;
  v1::ReadLogsResponse response = ResponseFor(log, log.position);
  if (LogSelection* const selection = selections_[turn.index].get(); selection != nullptr) {
    response.set_offset(selection->position());
    selection->Finish(response.mutable_data());
    selections_[turn.index].reset();
  }
  response.set_end(true);
  // Without `follow` bytes that are still on their way are not missing.
  const bool final = request_.follow() || log.state.abandoned;
  if (final && log.state.final_size.has_value() && *log.state.final_size > log.stored) {
    response.set_missing_bytes(*log.state.final_size - log.stored);
  }
  (void)outbound_.Send(std::move(response));
}

}  // namespace muster
