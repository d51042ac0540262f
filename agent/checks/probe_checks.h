// The checks that look at what users have, which may hang: files on file servers, programs. Says
// what a probe is to look at, and what its answer means. Pure.
#pragma once

#include <vector>

#include "agent/checks/check_context.h"
#include "agent/checks/probe_process.h"
#include "muster/internal/probe.pb.h"

namespace muster {

// What one inspection asks a probe. Empty request: there is nothing to ask.
struct ProbePlan {
  internal::ProbeRequest request;
  bool empty() const {
    return !request.check_exec() && request.paths().empty() && request.libraries().empty() &&
           request.programs().empty();
  }
};

ProbePlan PlanProbe(const CheckContext& context, const InspectionRequest& request);

// What was found, for the report.
struct ProbeFindings {
  std::vector<v1::CheckResult> results;
  std::vector<v1::NodeTrait> traits;
};

// What is not known in time is a warning.
ProbeFindings JudgeProbe(const CheckContext& context, const ProbePlan& plan,
                         const ProbeAnswer& answer);

}  // namespace muster
