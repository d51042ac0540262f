// The inspector that makes the checks of this folder: the quick ones at once, those that may hang
// by a probe with a limit of 2 s, which most starts do not need; on instances of AWS their metadata
// service is asked meanwhile. Lives on the loop thread.
#pragma once

#include <string>

#include "agent/checks/ec2_metadata.h"
#include "agent/checks/probe_process.h"
#include "agent/core/node_inspector.h"
#include "common/base/executor.h"

namespace muster {

struct NodeChecksOptions {
  // See CheckContext.
  std::string sysroot;
  std::string state_directory;
  // See QuickTraits.
  bool own_machine = true;
  // Null: the cloud is not asked. Outlives the checks.
  Ec2Metadata* ec2 = nullptr;
};

class NodeChecks final : public NodeInspector {
 public:
  // Both outlive it.
  NodeChecks(Executor& executor, ProbeRunner& probes, NodeChecksOptions options)
      : executor_(executor), probes_(probes), options_(std::move(options)) {}

  void Inspect(const InspectionRequest& request, Done done) override;

 private:
  Executor& executor_;
  ProbeRunner& probes_;
  const NodeChecksOptions options_;
};

}  // namespace muster
