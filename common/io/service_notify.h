// Tells a service manager that speaks systemd's notification protocol how this daemon is doing.
// Does nothing when there is none. Lives on the loop thread; never blocks.
#pragma once

#include <chrono>
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
  // From NOTIFY_SOCKET and WATCHDOG_USEC among `NAME=value` strings.
  static Manager TakenFrom(const std::vector<std::string>& environment);

  // `executor` outlives it.
  ServiceNotify(Executor& executor, Manager manager);
  ~ServiceNotify();
  ServiceNotify(const ServiceNotify&) = delete;
  ServiceNotify& operator=(const ServiceNotify&) = delete;

  // The daemon serves. From here on the watchdog, if there is one, is fed by the loop.
  void Ready();
  // The daemon ends.
  void Stopping();

 private:
  void Send(std::string_view text) const;
  void FeedWatchdog();

  Executor& executor_;
  const std::string socket_;
  const std::chrono::microseconds watchdog_;
  Executor::TimerId timer_ = 0;
};

}  // namespace muster
