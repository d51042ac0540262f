// The writing half of a gRPC stream: a bounded queue with one write in flight. The only place in
// the project that may call StartWrite, because a second write in flight aborts the process
// (gRPC 1.51).
//
// Works for every reactor with `StartWrite(const Message*, grpc::WriteOptions)`: server write,
// server bidi and client bidi. A message that others wait behind goes with a hint to keep it back,
// so that what is sent in one go leaves in few packets: the last one never has it. The owner (the
// reactor) forwards its OnWriteDone reaction to `OnWriteDone`. Everything is thread-safe. It never
// blocks, never calls Finish, and never outlives the reactor: it is a member of it.
//
// Ending a stream: `Close` (drop what is queued) or `CloseAfterFlush` (write it first); the
// callback given there runs exactly once, when no write is in flight any more, and is where a
// server reactor calls Finish and a client reactor removes its hold. A peer that does not read can
// keep a write in flight for ever: the owner then cancels the call by its context, which fails the
// write.
#pragma once

#include <grpcpp/support/sync_stream.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

#include "common/base/mutex.h"

namespace muster {

// What may wait in the queue of one stream. The message in flight counts.
struct OutboundLimits {
  size_t max_messages = 4096;
  size_t max_bytes = size_t{64} << 20;
};

enum class SendResult {
  kQueued,
  // The limits are reached: the peer does not read. The message was not taken.
  kFull,
  // Closed, or a write failed. The message was not taken.
  kClosed,
};

template <typename Reactor, typename Message>
class OutboundStream {
 public:
  // Runs with true when everything queued was handed to the transport, with false otherwise.
  using Closed = std::function<void(bool flushed)>;

  explicit OutboundStream(Reactor* reactor, OutboundLimits limits = {})
      : reactor_(reactor), limits_(limits) {}
  OutboundStream(const OutboundStream&) = delete;
  OutboundStream& operator=(const OutboundStream&) = delete;

  // Takes `message` and writes it behind the earlier ones. Unless kQueued is returned, `message` is
  // left as it was.
  SendResult Send(Message&& message) {
    return SendOrReplace(std::move(message), [](const Message&) { return false; });
  }

  // Like `Send`, but takes the place of the last waiting message for which `same` is true: for news
  // of which only the newest counts. A message in flight is never replaced.
  template <typename Same>
  SendResult SendOrReplace(Message&& message, Same same) {
    Write start;
    {
      MutexLock lock(mutex_);
      if (closing_ || failed_) return SendResult::kClosed;
      const size_t bytes = message.ByteSizeLong();
      const size_t first = in_flight_ ? 1 : 0;
      for (size_t i = queue_.size(); i > first; --i) {
        Entry& waiting = queue_[i - 1];
        if (!same(std::as_const(waiting.message))) continue;
        bytes_ = bytes_ - waiting.bytes + bytes;
        waiting = Entry{std::move(message), bytes};
        return SendResult::kQueued;
      }
      // One message always fits, however large.
      if (!queue_.empty() &&
          (queue_.size() >= limits_.max_messages || bytes_ + bytes > limits_.max_bytes)) {
        return SendResult::kFull;
      }
      queue_.push_back(Entry{std::move(message), bytes});
      bytes_ += bytes;
      start = NextLocked();
    }
    // Outside the lock; nobody else can start one, because in_flight_ is set.
    Start(start);
    return SendResult::kQueued;
  }

  // The reaction of the reactor. After `ok == false` nothing more is written.
  void OnWriteDone(bool ok) {
    Write start;
    Closed closed;
    bool flushed = false;
    {
      MutexLock lock(mutex_);
      in_flight_ = false;
      bytes_ -= queue_.front().bytes;
      queue_.pop_front();
      if (!ok) {
        failed_ = true;
        DropLocked();
      }
      start = NextLocked();
      if (start.message == nullptr && closing_) {
        closed = std::exchange(closed_, nullptr);
        flushed = !failed_ && !dropped_;
      }
    }
    Start(start);
    // Last: the reactor may be gone when it returns.
    if (closed) closed(flushed);
  }

  // Accepts nothing more, writes what is queued, then runs `closed`.
  void CloseAfterFlush(Closed closed) { CloseQueue(std::move(closed), false); }

  // Accepts nothing more, drops what is queued, and runs `closed` once the write in flight, if any,
  // is done. After an earlier close it only drops what is queued; the first callback stays.
  void Close(Closed closed) { CloseQueue(std::move(closed), true); }

  // Messages and bytes that wait, the one in flight included.
  size_t queued_messages() const {
    MutexLock lock(mutex_);
    return queue_.size();
  }
  size_t queued_bytes() const {
    MutexLock lock(mutex_);
    return bytes_;
  }

 private:
  struct Entry {
    Message message;
    size_t bytes = 0;
  };

  // What NextLocked found: null when there is nothing to start.
  struct Write {
    const Message* message = nullptr;
    bool others_wait = false;
  };

  void Start(const Write& write) {
    if (write.message == nullptr) return;
    grpc::WriteOptions options;
    if (write.others_wait) options.set_buffer_hint();
    reactor_->StartWrite(write.message, options);
  }

  void CloseQueue(Closed closed, bool drop) {
    Closed run;
    bool flushed = false;
    {
      MutexLock lock(mutex_);
      if (drop) DropLocked();
      if (closing_) return;
      closing_ = true;
      if (in_flight_) {
        closed_ = std::move(closed);
      } else {
        run = std::move(closed);
        flushed = !failed_ && !dropped_;
      }
    }
    if (run) run(flushed);
  }

  // Addresses in a deque stay valid while others come and go at its ends.
  Write NextLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (in_flight_ || queue_.empty()) return {};
    in_flight_ = true;
    return {&queue_.front().message, queue_.size() > 1};
  }

  void DropLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (queue_.size() > (in_flight_ ? 1u : 0u)) {
      bytes_ -= queue_.back().bytes;
      queue_.pop_back();
      dropped_ = true;
    }
  }

  Reactor* const reactor_;
  const OutboundLimits limits_;
  mutable Mutex mutex_;
  std::deque<Entry> queue_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool in_flight_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  bool dropped_ ABSL_GUARDED_BY(mutex_) = false;
  Closed closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
