// Where work runs and how time passes. The loop of a daemon implements it for real (common/io), the
// simulation with a queue of its own. All work of one executor runs on one thread, in order.
#pragma once

#include <cstdint>
#include <functional>

#include "common/base/clock.h"

namespace muster {

class Executor {
 public:
  using Task = std::function<void()>;
  // Names a delayed task; 0 names none.
  using TimerId = uint64_t;

  virtual ~Executor() = default;
  // Runs `task` soon on the executor's thread, behind what was posted before. Thread-safe.
  virtual void Post(Task task) = 0;
  // Runs `task` once, no earlier than `delay` from now. Call on the executor's thread only.
  virtual TimerId PostAfter(Duration delay, Task task) = 0;
  // Forgets a delayed task. A task that ran, or 0, is ignored. Call on the executor's thread only.
  virtual void Cancel(TimerId timer) = 0;
  virtual const Clock& clock() const = 0;
};

}  // namespace muster
