// The inspector of an agent: several that each know one thing, asked all at once, and what the job
// says about checks. Lives on the loop thread.
//
// Parts report what they find as results (PASS, WARN, FAIL) and leave the consequences to this one:
// `skip_checks` are taken out, `require_checks` turn warnings into failures, failures become
// problems, which prevent the start. What no job may decide about, a part tells as a problem
// itself.
#pragma once

#include <memory>
#include <vector>

#include "agent/core/node_inspector.h"
#include "common/base/executor.h"

namespace muster {

class CompositeInspector final : public NodeInspector {
 public:
  // The parts outlive it; what they find is told in their order.
  CompositeInspector(Executor& executor, std::vector<NodeInspector*> parts)
      : executor_(executor), parts_(std::move(parts)) {}

  void Inspect(const InspectionRequest& request, Done done) override;

 private:
  Executor& executor_;
  const std::vector<NodeInspector*> parts_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

// Applies `skip_checks` and `require_checks` of the launch to the results, turns failures into
// problems, and, unless the inspection was thorough, leaves out of the report what nobody has to
// know: it is kept for as long as the job. Pure.
void DrawConsequences(const v1::LaunchSpec& launch, bool thorough, Inspection& inspection);

}  // namespace muster
