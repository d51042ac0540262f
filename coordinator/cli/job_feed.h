// Watches one job on a thread of its own and puts what it hears into a mailbox, together with what
// the other threads of a follower have to say. Survives short losses of the coordinator.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/cli/job_source.h"

namespace muster {

// What happened since the last look.
struct News {
  struct Update {
    // True: a new stream, this is the whole job.
    bool whole = false;
    v1::Job job;
  };
  std::vector<Update> updates;
  std::vector<int> signals;
  // The coordinator went out of reach, or came back.
  std::optional<bool> connected;
  // Watching is over.
  std::optional<absl::Status> watch_end;
  // The console's descriptor was closed, with this errno.
  std::optional<int> console_closed;
  bool console_done = false;
  bool files_done = false;
  absl::Status files_status;

  bool empty() const {
    return updates.empty() && signals.empty() && !connected && !watch_end && !console_closed &&
           !console_done && !files_done;
  }
};

// Thread-safe. Everything that was added before `Take` is in what it returns.
class Mailbox {
 public:
  // Changes the news under the lock.
  void Add(const std::function<void(News&)>& change);
  // Waits until there are news or the time is over, and takes them.
  News Take(std::chrono::milliseconds limit);

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  News news_ ABSL_GUARDED_BY(mutex_);
};

// Feeds updates of a job, losses of the coordinator and the end of watching into a mailbox.
class JobFeed {
 public:
  // `source` and `mailbox` outlive it. `reconnect`: how long a lost coordinator is asked again.
  JobFeed(JobSource& source, std::string job_id, std::chrono::milliseconds reconnect,
          Mailbox& mailbox);
  ~JobFeed();
  JobFeed(const JobFeed&) = delete;
  JobFeed& operator=(const JobFeed&) = delete;

 private:
  void Run();

  JobSource& source_;
  const std::string job_id_;
  const std::chrono::milliseconds reconnect_;
  Mailbox& mailbox_;
  Cancellation cancellation_;
  Mutex mutex_;
  std::condition_variable_any cancelled_;
  std::thread thread_;
};

}  // namespace muster
