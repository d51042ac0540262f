// Tells a service manager that speaks systemd's notification protocol how the agent is doing. Does
// nothing when there is none. Lives on the loop thread; never blocks.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/executor.h"

namespace muster {

class ServiceNotify {
 public:
  // Takes NOTIFY_SOCKET and WATCHDOG_USEC from `environment`. `executor` outlives it.
  ServiceNotify(Executor& executor, const std::vector<std::string>& environment);
  ~ServiceNotify();
  ServiceNotify(const ServiceNotify&) = delete;
  ServiceNotify& operator=(const ServiceNotify&) = delete;

  // The agent serves. From here on the watchdog, if there is one, is fed by the loop.
  void Ready();
  // The agent ends.
  void Stopping();

 private:
  void Send(std::string_view text) const;
  void FeedWatchdog();

  Executor& executor_;
  const std::string socket_;
  std::chrono::microseconds watchdog_{0};
  Executor::TimerId timer_ = 0;
};

}  // namespace muster
