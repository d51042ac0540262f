// One thread that runs tasks in order: for work that may block on a disk and so must not run on the
// loop or in a gRPC reaction. `Post` is thread-safe. The destructor runs what was posted, then
// joins.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace muster {

class WorkerThread {
 public:
  using Task = std::function<void()>;

  // `name` is shown by ps and debuggers, at most 15 bytes.
  explicit WorkerThread(const std::string& name);
  ~WorkerThread();
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  void Post(Task task);
  // Runs what was posted and ends the thread; what is posted later is dropped. Not on the thread
  // itself.
  void Stop();

 private:
  void Run();

  Mutex mutex_;
  std::condition_variable_any wake_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster
