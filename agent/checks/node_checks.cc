#include "agent/checks/node_checks.h"

#include <memory>
#include <utility>

#include "agent/checks/probe_checks.h"
#include "agent/checks/quick_checks.h"
#include "agent/checks/traits.h"

namespace muster {
namespace {

constexpr std::chrono::milliseconds kProbeLimit{2000};

bool NeedsInterfaces(const CheckContext& context) {
  return (context.cards > 0 && context.multi_node()) ||
         !context.Env("HCCL_SOCKET_IFNAME").empty() || !context.Env("GLOO_SOCKET_IFNAME").empty() ||
         !context.Env("NCCL_SOCKET_IFNAME").empty();
}

}  // namespace

void NodeChecks::Inspect(const InspectionRequest& request, Done done) {
  auto context = std::make_shared<CheckContext>(MakeCheckContext(request, options_.sysroot));
  context->state_directory = options_.state_directory;
  if (NeedsInterfaces(*context)) context->interfaces = ReadNetworkInterfaces(options_.sysroot);
  Inspection inspection;
  for (v1::CheckResult& result : RunQuickChecks(*context, request.launch.skip_checks())) {
    *inspection.report.add_results() = std::move(result);
  }
  for (v1::NodeTrait& trait : QuickTraits(*context, options_.own_machine)) {
    *inspection.report.add_traits() = std::move(trait);
  }
  auto plan = std::make_shared<ProbePlan>(PlanProbe(*context, request));
  if (plan->empty()) {
    executor_.Post([done = std::move(done), inspection = std::move(inspection)]() mutable {
      done(std::move(inspection));
    });
    return;
  }
  internal::ProbeRequest asked = plan->request;
  plan->request.clear_bootstrap();
  probes_.Run(std::move(asked), kProbeLimit,
              [context, plan, done = std::move(done),
               inspection = std::move(inspection)](const ProbeAnswer& answer) mutable {
                ProbeFindings findings = JudgeProbe(*context, *plan, answer);
                for (v1::CheckResult& result : findings.results) {
                  *inspection.report.add_results() = std::move(result);
                }
                for (v1::NodeTrait& trait : findings.traits) {
                  *inspection.report.add_traits() = std::move(trait);
                }
                done(std::move(inspection));
              });
}

}  // namespace muster
