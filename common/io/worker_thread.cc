#include "common/io/worker_thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace muster {

WorkerThread::WorkerThread(const std::string& name) {
  // Signals belong to the thread that runs the loop.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

WorkerThread::~WorkerThread() { Stop(); }

void WorkerThread::Post(Task task) {
  {
    MutexLock lock(mutex_);
    if (stop_) return;
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void WorkerThread::Stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void WorkerThread::Run() {
  std::vector<Task> batch;
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (tasks_.empty() && !stop_) wake_.wait(mutex_);
      if (tasks_.empty()) return;
      batch.swap(tasks_);
    }
    for (Task& task : batch) {
      task();
      // Whatever the task holds goes before the next one runs.
      task = nullptr;
    }
    batch.clear();
  }
}

}  // namespace muster
