// Tells a service manager that speaks systemd's notification protocol how this daemon is doing.
// Does nothing when there is none. Lives on the loop thread; never blocks.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/executor.h"

namespace muster {

class ServiceNotify {
 public:
  // Where the manager listens and how often it wants to hear. Empty and 0: there is none.
  struct Manager {
    std::string socket;
    std::chrono::microseconds watchdog{0};
  };
  // From NOTIFY_SOCKET and WATCHDOG_USEC among `NAME=value` strings. None when WATCHDOG_PID says
  // that they are meant for another process than `pid`, such as one that started this one.
  static Manager TakenFrom(const std::vector<std::string>& environment, int pid);

  // `executor` outlives it.
  ServiceNotify(Executor& executor, Manager manager);
  ~ServiceNotify();
  ServiceNotify(const ServiceNotify&) = delete;
  ServiceNotify& operator=(const ServiceNotify&) = delete;

  // The daemon serves. From here on the watchdog, if there is one, is fed by the loop, so that a
  // loop that hangs is noticed; and `status`, one line for people, is asked every 2 s and told when
  // it has changed.
  void Ready(std::function<std::string()> status);
  // The daemon ends.
  void Stopping();

 private:
  // False: the manager does not take it now. True also when there is none.
  bool Send(std::string_view text) const;
  void TellReady();
  void FeedWatchdog();
  void TellStatus();

  Executor& executor_;
  const std::string socket_;
  const std::chrono::microseconds watchdog_;
  std::function<std::string()> status_;
  // What was told last.
  std::string told_;
  Executor::TimerId ready_timer_ = 0;
  Executor::TimerId watchdog_timer_ = 0;
  Executor::TimerId status_timer_ = 0;
};

}  // namespace muster
