// The signals that a person or a scheduler sends to the command. They are blocked before any thread
// exists and taken by one thread of their own, so that nothing is ever interrupted by them.
#pragma once

#include <csignal>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/io/unique_fd.h"

namespace muster {

// Blocks the signals that a SignalWatcher takes, and ignores SIGPIPE and SIGXFSZ: both are reported
// by errno where they happen. An inherited "ignore" of SIGHUP stays, as nohup wants. Call first in
// main().
void PrepareSignals();

// While this exists, signals end the process as they usually do: for reading files that people
// name, which may be pipes without a writer or lie on a file system that does not answer. Before
// any thread exists.
class SignalsAsUsual {
 public:
  SignalsAsUsual();
  ~SignalsAsUsual();
  SignalsAsUsual(const SignalsAsUsual&) = delete;
  SignalsAsUsual& operator=(const SignalsAsUsual&) = delete;
};

// True for the signals that ask the command to end.
bool AsksToEnd(int signal);

// Takes SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 while it exists, those that came since
// PrepareSignals included. Thread-safe.
class SignalWatcher {
 public:
  using Handler = std::function<void(int signal)>;

  SignalWatcher();
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  // Gives every signal, those that came before included, to `handler`, on the watcher's thread;
  // null keeps them for the next handler. When it returns the old handler does not run any more.
  void SetHandler(Handler handler);
  // The first signal so far that asks the command to end, whether or not a handler took it.
  std::optional<int> FirstEnd() const;

 private:
  void Run();
  void TakePending();

  UniqueFd signals_;
  UniqueFd stop_;
  mutable Mutex mutex_;
  Handler handler_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<int> first_end_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace muster
