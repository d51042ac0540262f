#include "agent/checks/node_checks.h"

#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "agent/checks/probe_checks.h"
#include "agent/checks/quick_checks.h"
#include "agent/checks/traits.h"
#include "common/base/annotate.h"
#include "common/base/filled_trait.h"

namespace muster {
namespace {

constexpr std::chrono::milliseconds kProbeLimit{2000};
constexpr char kSameNetwork[] = "same-network";

bool NeedsInterfaces(const CheckContext& context) {
  return (context.cards > 0 && context.multi_node()) ||
         !context.Env("HCCL_SOCKET_IFNAME").empty() || !context.Env("GLOO_SOCKET_IFNAME").empty() ||
         !context.Env("NCCL_SOCKET_IFNAME").empty();
}

// One inspection that waits for its parts.
struct Pending {
  CheckContext context;
  ProbePlan plan;
  Inspection inspection;
  ProbeFindings probed;
  ProbeFindings instance;
  // What has not come yet.
  int parts = 0;
  NodeInspector::Done done;
};

void Take(ProbeFindings& findings, Inspection& inspection) {
  for (v1::CheckResult& result : findings.results) {
    *inspection.report.add_results() = std::move(result);
  }
  for (v1::NodeTrait& trait : findings.traits) {
    *inspection.report.add_traits() = std::move(trait);
  }
}

void PartDone(Pending& pending) {
  if (--pending.parts > 0) return;
  Take(pending.probed, pending.inspection);
  Take(pending.instance, pending.inspection);
  pending.done(std::move(pending.inspection));
}

bool WantsInstance(const CheckContext& context, const v1::LaunchSpec& launch) {
  const auto& skip = launch.skip_checks();
  if (std::find(skip.begin(), skip.end(), kSameNetwork) != skip.end()) return false;
  return (context.thorough || (context.cards > 0 && context.multi_node())) && context.is_ec2();
}

ProbeFindings JudgeInstance(const absl::StatusOr<Ec2Instance>& instance) {
  if (!instance.ok()) {
    // Containers, and instances where it is turned off, have none; nothing is wrong with that.
    return {.results = {MakeResult(kSameNetwork, v1::SKIPPED,
                                   fmt::format("the metadata service of the instance: {}",
                                               MessageOf(instance.status())),
                                   "")},
            .traits = {}};
  }
  const std::string group = instance->placement_group.empty()
                                ? "no placement group"
                                : "placement group " + instance->placement_group;
  return {.results = {MakeResult(
              kSameNetwork, v1::PASS,
              fmt::format("{} in {}, {}", instance->type, instance->availability_zone, group), "")},
          .traits = InstanceTraits(*instance)};
}

}  // namespace

void NodeChecks::Inspect(const InspectionRequest& request, Done done) {
  auto pending = std::make_shared<Pending>();
  CheckContext& context = pending->context;
  context = MakeCheckContext(request, options_.sysroot);
  context.state_directory = options_.state_directory;
  if (NeedsInterfaces(context)) context.interfaces = ReadNetworkInterfaces(options_.sysroot);
  v1::NodeReport& report = pending->inspection.report;
  for (v1::CheckResult& result : RunQuickChecks(context, request.launch.skip_checks())) {
    *report.add_results() = std::move(result);
  }
  for (v1::NodeTrait& trait : QuickTraits(context, options_.own_machine)) {
    *report.add_traits() = std::move(trait);
  }
  for (const internal::ShimFilled& filled : request.bootstrap.filled()) {
    *report.add_traits() = MakeTrait(FilledTraitName(filled.name()),
                                     FilledTraitValue(filled.source(), context.Env(filled.name())));
  }
  pending->plan = PlanProbe(context, request);
  pending->done = std::move(done);
  // The last to come answers; this one is there already, and answers in a task of its own.
  pending->parts = 1;
  if (!pending->plan.empty()) {
    ++pending->parts;
    internal::ProbeRequest asked = pending->plan.request;
    pending->plan.request.clear_bootstrap();
    probes_.Run(std::move(asked), kProbeLimit, [pending](const ProbeAnswer& answer) {
      pending->probed = JudgeProbe(pending->context, pending->plan, answer);
      PartDone(*pending);
    });
  }
  if (options_.ec2 != nullptr && WantsInstance(context, request.launch)) {
    ++pending->parts;
    options_.ec2->Ask([pending](const absl::StatusOr<Ec2Instance>& instance) {
      pending->instance = JudgeInstance(instance);
      PartDone(*pending);
    });
  }
  executor_.Post([pending] { PartDone(*pending); });
}

}  // namespace muster
