// The part of a node's inspection that places ranks. PlaceOnNode is what there is to do, on a
// thread of its own; PlacingInspector is a NodeInspector that does nothing else. It lives on the
// loop thread and answers launches that bind nothing without a thread and without the topology.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "agent/binding/place_ranks.h"
#include "agent/core/node_inspector.h"
#include "common/base/executor.h"

namespace muster {

// Places the ranks and tries it. Of a launch that NeedsTopology. Blocks for as long as the topology
// takes to load; on a thread that belongs to the caller alone.
Placements PlaceOnNode(const v1::LaunchSpec& launch, const v1::DeviceInventory& devices,
                       const BindVariables& variables, LazyTopology& topology);

// Adds what was found out about places.
void AddPlacements(Placements placements, Inspection* inspection);

class PlacingInspector final : public NodeInspector {
 public:
  // `executor` outlives it. `devices`: all cards of the node; called on the loop thread. `root`:
  // see LoadTopology.
  PlacingInspector(Executor& executor, std::function<v1::DeviceInventory()> devices,
                   const std::string& root);
  // Waits for threads that run; what they find is not told.
  ~PlacingInspector() override;
  PlacingInspector(const PlacingInspector&) = delete;
  PlacingInspector& operator=(const PlacingInspector&) = delete;

  void Inspect(const InspectionRequest& request, Done done) override;

 private:
  // Answers in a task.
  void Answer(Placements placements, Done done);
  // As Answer, from a thread that ends then.
  void AnswerFrom(std::list<std::thread>::iterator thread, Placements placements, Done done);

  Executor& executor_;
  const std::function<v1::DeviceInventory()> devices_;
  LazyTopology topology_;
  std::list<std::thread> threads_;
  // Tasks look here whether the inspector still lives.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace muster
