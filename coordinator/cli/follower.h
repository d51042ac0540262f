// The parts of following one job, see follow.h. Lives on one thread; the threads of its members
// talk to it through the mailbox.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "coordinator/cli/console.h"
#include "coordinator/cli/follow.h"
#include "coordinator/cli/job_feed.h"
#include "coordinator/cli/job_view.h"
#include "coordinator/cli/log_follower.h"
#include "coordinator/cli/rank_files.h"
#include "coordinator/cli/summary.h"

namespace muster {

class Follower {
 public:
  Follower(Client& client, SignalWatcher& signals, Reporter& reporter,
           const FollowOptions& options);
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  FollowResult Run();

 private:
  using Time = std::chrono::steady_clock::time_point;
  // A failure whose job has not ended by then is told before the end.
  static constexpr std::chrono::milliseconds kEarlyFailure{250};

  // Until the job has ended (true) or is not followed any more, `exit_status_` being set.
  bool WatchUntilEnd();
  void Handle(const News& news);
  void OnUpdate(const News::Update& update);
  void OnSignal(int signal);
  void OnEndSignal(int signal);
  void PassOn(int signal);
  void OnWatchEnd(const absl::Status& status);
  void StartOutput();
  void SayWaiting(Time now);
  void SayEarlyFailure(Time now);
  std::chrono::milliseconds NextLook(Time now) const;

  void DrainOutput();
  void Report();
  EndContext MakeEndContext();
  uint64_t LostBytes() const;

  Client& client_;
  SignalWatcher& signals_;
  Reporter& reporter_;
  const FollowOptions options_;
  const Time begin_;
  Mailbox mailbox_;
  JobView view_;

  bool leave_ = false;
  // The job has ended and the rest of its output is being printed.
  bool draining_ = false;
  int exit_status_ = 0;
  int end_signals_ = 0;
  int first_end_signal_ = 0;
  // When waiting for a cancelled job is given up.
  std::optional<Time> cancel_limit_;

  std::set<std::string> said_warnings_;
  std::string said_waiting_;
  Time said_waiting_at_;
  std::optional<Time> failure_seen_;
  bool failure_said_ = false;

  bool output_started_ = false;
  bool console_done_ = true;
  bool files_done_ = true;
  // How the stream of the files ended.
  absl::Status files_status_;
  std::unique_ptr<RankFiles> files_;
  std::atomic<uint64_t> files_progress_ = 0;
  // Below here: threads that use what is above.
  std::unique_ptr<LogFollower> files_follower_;
  std::unique_ptr<Console> console_;
  std::unique_ptr<JobFeed> feed_;
};

}  // namespace muster
