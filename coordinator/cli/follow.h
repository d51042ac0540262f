// Follows one job to its end: shows its output, writes its files, passes the user's signals on,
// says what it waits for, and tells how it ended. Owns the threads that it needs for that. One call
// at a time; the caller's thread is the one that talks to the user.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "coordinator/cli/client.h"
#include "coordinator/cli/reporter.h"
#include "coordinator/cli/signals.h"
#include "muster/v1/job.pb.h"

namespace muster {

struct FollowOptions {
  std::string job_id;
  // True: signals that ask to end cancel the job. False: they end only the following.
  bool owns_job = true;
  // Labelled output on `output_fd`.
  bool show_output = true;
  int output_fd = 1;
  // Longest time without progress of what is left to print once the job has ended.
  std::chrono::milliseconds patience{10'000};
  // Folder for the files of ranks, prepared by PrepareLogDirectory; empty: none.
  std::string log_dir;
  // Command that shows the job's logs later; empty: there is none.
  std::string log_command;
  // Between SIGTERM and SIGKILL, for what the user is told and as a bound for waiting.
  std::chrono::milliseconds grace{30'000};
  // The coordinator and all nodes are this process and its children.
  bool local = false;
  // How long a coordinator that is out of reach is waited for.
  std::chrono::milliseconds reconnect{0};
};

struct FollowResult {
  // Newest state of the job; empty when nothing was ever heard of it.
  v1::Job job;
  // For the command: the job's status, 128 + signal when it was left, or `kExitNoCoordinator`.
  int exit_status = 0;
  // Bytes of output that did not survive the way to the coordinator.
  uint64_t lost_bytes = 0;
};

FollowResult FollowJob(Client& client, SignalWatcher& signals, Reporter& reporter,
                       const FollowOptions& options);

}  // namespace muster
