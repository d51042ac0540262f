#include "coordinator/cli/signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace muster {
namespace {

// SIGHUP is not among them while it is ignored.
sigset_t WatchedSignals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) ::sigaddset(&set, signal);
  struct sigaction hangup = {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) ::sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

void PrepareSignals() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  // A shell without job control starts background commands with SIGINT ignored; whoever sends one
  // to this command means it all the same.
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_DFL);
  const sigset_t set = WatchedSignals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

SignalsAsUsual::SignalsAsUsual() {
  const sigset_t set = WatchedSignals();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

SignalsAsUsual::~SignalsAsUsual() {
  const sigset_t set = WatchedSignals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

bool AsksToEnd(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

SignalWatcher::SignalWatcher() {
  const sigset_t set = WatchedSignals();
  signals_.Reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  stop_.Reset(::eventfd(0, EFD_CLOEXEC));
  TakePending();
  thread_ = std::thread([this] { Run(); });
}

SignalWatcher::~SignalWatcher() {
  const uint64_t one = 1;
  // The counter cannot be full: this is its only write.
  (void)!::write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void SignalWatcher::SetHandler(Handler handler) {
  MutexLock lock(mutex_);
  handler_ = std::move(handler);
  if (!handler_) return;
  for (int signal : std::exchange(waiting_, {})) handler_(signal);
}

std::optional<int> SignalWatcher::FirstEnd() const {
  MutexLock lock(mutex_);
  return first_end_;
}

void SignalWatcher::Run() {
  for (;;) {
    pollfd ready[2] = {{signals_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    // EINTR: nothing is ready then.
    if (::poll(ready, 2, -1) < 0) continue;
    if (ready[1].revents != 0) return;
    TakePending();
  }
}

void SignalWatcher::TakePending() {
  signalfd_siginfo info = {};
  while (::read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    const int signal = static_cast<int>(info.ssi_signo);
    MutexLock lock(mutex_);
    if (AsksToEnd(signal) && !first_end_) first_end_ = signal;
    // Under the lock, so that SetHandler can promise that the old handler is done.
    if (handler_) {
      handler_(signal);
    } else {
      waiting_.push_back(signal);
    }
  }
}

}  // namespace muster
