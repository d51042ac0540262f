// The part of a node's inspection that is about its cards: whether those that a launch wants are
// there, work, are held by nobody and have links. Looks at them anew on a thread of its own,
// because that may block; lives on the loop thread otherwise. Launches without cards cost nothing.
#pragma once

#include <chrono>
#include <memory>

#include "agent/core/node_inspector.h"
#include "agent/daemon/card_reader.h"
#include "common/io/event_loop.h"
#include "common/io/worker_thread.h"

namespace muster {

class CardInspector final : public NodeInspector {
 public:
  // Both outlive it. `look_limit`: a driver that does not answer for so long is no reason to wait.
  CardInspector(EventLoop& loop, const CardReader& cards,
                std::chrono::milliseconds look_limit = std::chrono::seconds(3))
      : loop_(loop), cards_(cards), look_limit_(look_limit) {}
  // Waits for a look that is under way.
  ~CardInspector() override = default;
  CardInspector(const CardInspector&) = delete;
  CardInspector& operator=(const CardInspector&) = delete;

  void Inspect(const InspectionRequest& request, Done done) override;

 private:
  EventLoop& loop_;
  const CardReader& cards_;
  const std::chrono::milliseconds look_limit_;
  // Posted tasks look here whether the inspector still lives.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  // Made when needed.
  std::unique_ptr<WorkerThread> worker_;
};

}  // namespace muster
