// The cards of the node for the rest of the agent: what was found at the start or since, as a
// driver may be loaded later, and, as often as the coordinator asks for it, what they say. Asking
// may block, so a thread of its own does it; everything else lives on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/devices/inventory.h"
#include "common/io/event_loop.h"
#include "common/io/worker_thread.h"
#include "muster/internal/shim.pb.h"
#include "muster/v1/agent.pb.h"

namespace muster {

class CardReader {
 public:
  // Looks for cards, unless `mode` is `none`; blocks as ReadInventory does. `loop` outlives it.
  CardReader(EventLoop& loop, DeviceOptions options, const std::string& mode);
  // Waits for a look that is under way.
  ~CardReader();
  CardReader(const CardReader&) = delete;
  CardReader& operator=(const CardReader&) = delete;

  const v1::DeviceInventory& inventory() const { return inventory_; }
  const DeviceOptions& options() const { return options_; }

  // Puts the cards into the facts of the node; where there are some that can be used, they are its
  // slots. With the mode `gaudi` nothing else is.
  void AddTo(v1::NodeFacts& facts) const;
  // What shims look at before they give cards to ranks.
  std::vector<internal::ShimCard> ShimCards() const;

  // From now on sysfs is looked at again now and then; `changed` is called when other cards are
  // there, or other ones can be used. Not where cards come from hl-smi.
  void WatchForChanges(std::function<void()> changed);

  // From now on cards are asked this often; 0: not any more.
  void SetInterval(Duration interval);
  // What was read since the last call; empty: nothing.
  std::vector<v1::DeviceReading> TakeReadings();

 private:
  void Ask();
  void LookAgain();
  void TakeInventory(v1::DeviceInventory now);
  WorkerThread& worker();

  EventLoop& loop_;
  const DeviceOptions options_;
  const std::string mode_;
  v1::DeviceInventory inventory_;
  Duration interval_{0};
  Executor::TimerId timer_ = 0;
  bool asking_ = false;
  std::function<void()> changed_;
  Executor::TimerId look_timer_ = 0;
  bool looking_ = false;
  std::vector<v1::DeviceReading> readings_;
  // Posted tasks look here whether the reader still lives.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  // Made when needed.
  std::unique_ptr<WorkerThread> worker_;
};

}  // namespace muster
