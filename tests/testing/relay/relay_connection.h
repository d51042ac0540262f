// One connection through a relay: two sockets and what is under way between them. Used by the
// relay's thread only.
#pragma once

#include <poll.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/io/unique_fd.h"
#include "tests/testing/relay/relay.h"

namespace muster::testing {

using RelayTime = std::chrono::steady_clock::time_point;

// Bytes that may pass in one direction, for all connections together.
class RelayAllowance {
 public:
  // Call before Bytes; `rate` in bytes a second, 0 for any number.
  void Refill(uint64_t rate, RelayTime now);
  size_t bytes() const { return rate_ == 0 ? SIZE_MAX : static_cast<size_t>(tokens_); }
  void Take(size_t bytes) { tokens_ -= rate_ == 0 ? 0 : static_cast<double>(bytes); }
  // When there is a byte again.
  RelayTime next() const;

 private:
  uint64_t rate_ = 0;
  double tokens_ = 0;
  RelayTime filled_ = {};
};

// One direction. Bytes wait here from when they were read until they were written.
class RelayFlow {
 public:
  // More is not read.
  static constexpr size_t kMostHeldBytes = size_t{1} << 20;

  struct Fate {
    std::chrono::milliseconds delay{0};
    bool hold = false;
    bool swallow = false;
  };

  bool WantsToRead(const Fate& fate) const {
    return !read_all_ && (fate.swallow || held_bytes_ < kMostHeldBytes);
  }
  // True when something is due. Otherwise `wake` is brought forward to when it is.
  bool WantsToWrite(const Fate& fate, const RelayAllowance& allowance, RelayTime now,
                    RelayTime& wake) const;
  // Reads once. False: the socket is broken. What was read is added to `recording` too, if any.
  bool Read(int fd, const Fate& fate, RelayTime now, std::string* recording, RelayCounts& counts);
  // Writes what is due. False: the socket is broken.
  bool Write(int fd, RelayAllowance& allowance, RelayTime now, uint64_t& passed);
  void Put(std::string bytes, RelayTime due);
  // What waits is lost.
  void Drop(RelayCounts& counts);

  // Something was swallowed: the rest makes no sense to the receiver.
  bool lossy() const { return lossy_; }
  // The end of the stream was handed on.
  bool finished() const { return finished_; }
  bool empty() const { return waiting_.empty(); }
  size_t held_bytes() const { return held_bytes_; }

 private:
  struct Chunk {
    RelayTime due;
    // Empty: the end of the stream.
    std::string bytes;
    size_t written = 0;
  };

  std::deque<Chunk> waiting_;
  size_t held_bytes_ = 0;
  bool read_all_ = false;
  bool finished_ = false;
  bool lossy_ = false;
};

class RelayConnection {
 public:
  // `recording`: what the client sends is added to it, up to Relay::kMostRecordedBytes.
  RelayConnection(UniqueFd client, UniqueFd server, std::shared_ptr<std::string> recording)
      : client_(std::move(client)), server_(std::move(server)), recording_(std::move(recording)) {}
  // Sends `bytes` to the server and drops its answers.
  RelayConnection(UniqueFd server, std::string bytes, RelayTime now);

  struct Allowances {
    RelayAllowance to_server;
    RelayAllowance to_client;
  };

  // Adds two entries to `polled`, with what the connection waits for; `wake` as in RelayFlow.
  void Poll(const RelayFaults& faults, const Allowances& allowances, RelayTime now,
            std::vector<pollfd>& polled, RelayTime& wake) const;
  // Moves bytes; `polled` points to the two entries. False: the connection is over.
  bool Move(const RelayFaults& faults, Allowances& allowances, RelayTime now, const pollfd* polled,
            RelayCounts& counts);
  void Cut(Relay::Cut how);

  bool is_replay() const { return !client_; }
  bool lossy() const { return to_server_.lossy() || to_client_.lossy(); }
  size_t held_bytes() const { return to_server_.held_bytes() + to_client_.held_bytes(); }

 private:
  bool MoveReplay(Allowances& allowances, RelayTime now, const pollfd* polled, RelayCounts& counts);

  UniqueFd client_;
  UniqueFd server_;
  std::shared_ptr<std::string> recording_;
  RelayFlow to_server_;
  RelayFlow to_client_;
  bool answered_ = false;
  bool replay_counted_ = false;
};

}  // namespace muster::testing
