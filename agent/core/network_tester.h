// One end of a bandwidth test between two nodes. The seam between the agent's core, which is asked
// for one, and sockets and threads. Lives on the loop thread.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>

#include "muster/v1/check.pb.h"

namespace muster {

class NetworkTester {
 public:
  // The port that is listened on now.
  using Listening = std::function<void(absl::StatusOr<uint32_t>)>;
  using Measured = std::function<void(absl::StatusOr<v1::NetworkRate>)>;

  virtual ~NetworkTester() = default;
  // Receives what one connection sends, for `limit` at most. RESOURCE_EXHAUSTED: too many tests
  // run. Callbacks run later, once, unless the tester is destroyed before.
  virtual void Listen(const v1::NetworkListen& request, std::chrono::milliseconds limit,
                      Listening done) = 0;
  virtual void Connect(const v1::NetworkConnect& request, std::chrono::milliseconds limit,
                       Measured done) = 0;
};

}  // namespace muster
