#include "agent/checks/quick_checks.h"

#include <algorithm>
#include <iterator>

namespace muster {
namespace {

bool HasCards(const CheckContext& context) { return context.cards > 0; }
bool HasCardsOrThorough(const CheckContext& context) {
  return context.cards > 0 || context.thorough;
}
template <const char* kName>
bool IsSet(const CheckContext& context) {
  return !context.Env(kName).empty();
}
constexpr char kHccl[] = "HCCL_SOCKET_IFNAME";
constexpr char kGloo[] = "GLOO_SOCKET_IFNAME";
constexpr char kNccl[] = "NCCL_SOCKET_IFNAME";

bool UsesHccl(const CheckContext& context) {
  // Unset, HCCL takes an interface by itself, where there may be none.
  return IsSet<kHccl>(context) || (context.cards > 0 && context.multi_node());
}
bool UsesEfa(const CheckContext& context) { return context.wants_efa(); }
bool IsOverOfi(const CheckContext& context) { return context.EnvIsOn("HCCL_OVER_OFI"); }
bool MayLockMemory(const CheckContext& context) {
  return context.cards > 0 || context.thorough || context.wants_efa();
}
bool NameMatters(const CheckContext& context) {
  return (context.cards > 0 && context.multi_node()) || context.thorough;
}

constexpr QuickCheck kChecks[] = {
    {"driver", HasCards, CheckDriver},
    {"hccl-interface", UsesHccl, CheckHcclInterface},
    {"gloo-interface", IsSet<kGloo>, CheckGlooInterface},
    {"nccl-interface", IsSet<kNccl>, CheckNcclInterface},
    {"host-nic", IsOverOfi, CheckHostNic},
    {"efa", UsesEfa, CheckEfa},
    {"network-files", HasCards, CheckNetworkFiles},
    {"memlock", MayLockMemory, CheckMemlock},
    {"open-files", HasCardsOrThorough, CheckOpenFileLimit},
    {"hugepages", HasCards, CheckHugePages},
    {"shared-memory", HasCardsOrThorough, CheckSharedMemory},
    {"cpu-governor", HasCards, CheckCpuGovernor},
    {"numa-balancing", HasCards, CheckNumaBalancing},
    {"iommu", HasCards, CheckIommu},
    {"hostname", NameMatters, CheckHostname},
    {"disk", HasCardsOrThorough, CheckDisk},
};

}  // namespace

std::span<const QuickCheck> QuickChecks() { return kChecks; }

std::vector<v1::CheckResult> RunQuickChecks(
    const CheckContext& context, const google::protobuf::RepeatedPtrField<std::string>& skip) {
  std::vector<v1::CheckResult> results;
  for (const QuickCheck& check : kChecks) {
    if (std::find(skip.begin(), skip.end(), check.name) != skip.end()) {
      results.push_back(MakeResult(check.name, v1::SKIPPED, "left out on request", ""));
    } else if (check.applies(context)) {
      results.push_back(check.run(context));
    } else if (context.thorough) {
      results.push_back(MakeResult(check.name, v1::SKIPPED, "does not apply", ""));
    }
  }
  return results;
}

}  // namespace muster
