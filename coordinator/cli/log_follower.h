// Reads the output of a job on a thread of its own and hands the pieces on. Survives short losses
// of the coordinator: it asks again for what is behind the pieces that it has handed on. The owner
// may call `Cancel` and `Wait` from any thread.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/status/status.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <optional>
#include <thread>

#include "common/base/mutex.h"
#include "coordinator/cli/job_source.h"

namespace muster {

class LogFollower {
 public:
  // How far a rank's file was already handed on.
  struct Position {
    uint32_t attempt = 0;
    uint64_t next = 0;
  };
  using Positions = absl::flat_hash_map<uint32_t, Position>;
  struct Options {
    v1::ReadLogsRequest request;
    // What lies in front of these, per rank, is not handed on again.
    Positions from;
    // How long a coordinator that is out of reach is asked again; 0: not at all.
    std::chrono::milliseconds reconnect{0};
  };
  // Takes a piece, on the follower's thread; may block. False: enough.
  using OnPiece = std::function<bool(v1::ReadLogsResponse piece)>;
  // Runs once at the end, on the follower's thread.
  using OnDone = std::function<void(const absl::Status& status)>;

  // `source` outlives the follower.
  LogFollower(JobSource& source, Options options, OnPiece on_piece, OnDone on_done);
  // Cancels and waits.
  ~LogFollower();
  LogFollower(const LogFollower&) = delete;
  LogFollower& operator=(const LogFollower&) = delete;

  void Cancel();

 private:
  void Run();
  absl::Status ReadOnce();
  bool Forward(v1::ReadLogsResponse piece);

  JobSource& source_;
  const Options options_;
  const OnPiece on_piece_;
  const OnDone on_done_;
  Cancellation cancellation_;
  // Of the follower's thread.
  Positions positions_;
  absl::flat_hash_set<uint32_t> ended_;
  bool moved_ = false;
  Mutex mutex_;
  std::condition_variable_any cancelled_;
  std::thread thread_;
};

}  // namespace muster
