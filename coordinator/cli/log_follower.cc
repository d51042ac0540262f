#include "coordinator/cli/log_follower.h"

#include <utility>

namespace muster {
namespace {

constexpr std::chrono::milliseconds kRetryPause(250);

}  // namespace

LogFollower::LogFollower(JobSource& source, Options options, OnPiece on_piece, OnDone on_done)
    : source_(source),
      options_(std::move(options)),
      on_piece_(std::move(on_piece)),
      on_done_(std::move(on_done)),
      positions_(options_.from),
      thread_([this] { Run(); }) {}

LogFollower::~LogFollower() {
  Cancel();
  thread_.join();
}

void LogFollower::Cancel() {
  cancellation_.Cancel();
  MutexLock lock(mutex_);
  cancelled_.notify_all();
}

void LogFollower::Run() {
  auto give_up = std::chrono::steady_clock::now() + options_.reconnect;
  absl::Status status;
  for (;;) {
    moved_ = false;
    status = ReadOnce();
    const auto now = std::chrono::steady_clock::now();
    if (moved_) give_up = now + options_.reconnect;
    if (!absl::IsUnavailable(status) || now >= give_up || cancellation_.cancelled()) break;
    MutexLock lock(mutex_);
    cancelled_.wait_for(mutex_, kRetryPause, [this] { return cancellation_.cancelled(); });
  }
  if (cancellation_.cancelled()) status = absl::CancelledError("cancelled");
  on_done_(status);
}

absl::Status LogFollower::ReadOnce() {
  v1::ReadLogsRequest request = options_.request;
  request.set_sparse(true);
  for (const auto& [rank, position] : positions_) {
    v1::LogPosition* from = request.add_from();
    from->set_rank(rank);
    from->set_attempt(position.attempt);
    from->set_offset(position.next);
  }
  return source_.ReadLogs(request, cancellation_,
                          [this](v1::ReadLogsResponse piece) { return Forward(std::move(piece)); });
}

bool LogFollower::Forward(v1::ReadLogsResponse piece) {
  moved_ = true;
  const uint32_t rank = piece.rank();
  Position& position = positions_[rank];
  if (piece.attempt() < position.attempt) return true;
  if (piece.attempt() > position.attempt) {
    position = {piece.attempt(), piece.offset()};
    ended_.erase(rank);
  }
  if (ended_.contains(rank)) return true;
  const uint64_t size = piece.data().size() + piece.zeros();
  const uint64_t end = piece.offset() + size;
  if (piece.offset() < position.next) {
    // Handed on before.
    const uint64_t known = std::min(position.next - piece.offset(), size);
    if (known == size && !piece.end()) return true;
    const uint64_t data = std::min<uint64_t>(known, piece.data().size());
    piece.mutable_data()->erase(0, data);
    piece.set_zeros(piece.zeros() - (known - data));
    piece.set_offset(piece.offset() + known);
  }
  position.next = std::max(position.next, end);
  if (piece.end()) ended_.insert(rank);
  return on_piece_(std::move(piece));
}

}  // namespace muster
