#include "agent/checks/traits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "agent/checks/quick_checks.h"

namespace muster {
namespace {

constexpr size_t kMaxValueBytes = 500;
constexpr size_t kMaxVariables = 64;

// The different values that the cards of the node have.
std::string OfCards(const CheckContext& context, const char* file) {
  std::set<std::string> values;
  for (const std::string& card : context.List("/sys/class/accel")) {
    if (!card.starts_with("accel") || card.find("control") != std::string::npos) continue;
    values.insert(context.ReadLine(fmt::format("/sys/class/accel/{}/device/{}", card, file)));
  }
  values.erase("");
  return fmt::format("{}", fmt::join(values, ", "));
}

bool SaysSecret(std::string_view name) {
  for (const char* word : {"TOKEN", "KEY", "SECRET", "PASSWORD"}) {
    if (name.find(word) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

std::vector<v1::NodeTrait> QuickTraits(const CheckContext& context, bool own_machine) {
  std::vector<v1::NodeTrait> traits;
  if (!context.multi_node() && !context.thorough) return traits;
  const bool machine = context.cards > 0 || context.thorough;
  if (machine && own_machine) {
    traits.push_back(MakeTrait("hostname", context.ReadLine("/proc/sys/kernel/hostname")));
    traits.push_back(MakeTrait("boot-id", context.ReadLine("/proc/sys/kernel/random/boot_id")));
  }
  if (machine)
    traits.push_back(MakeTrait("kernel", context.ReadLine("/proc/sys/kernel/osrelease")));
  if (context.cards > 0) {
    traits.push_back(MakeTrait("driver", context.ReadLine("/sys/module/habanalabs/version")));
    traits.push_back(MakeTrait("firmware", OfCards(context, "fw_os_ver")));
    traits.push_back(MakeTrait("device-type", OfCards(context, "device_type")));
  }
  if (context.uses_host_nic()) {
    const NetworkInterface* const interface = HcclInterface(context);
    // Where every address has a network of its own, routes lead between them.
    if (interface != nullptr && !interface->loopback && !interface->subnets.empty() &&
        !interface->subnets[0].ends_with("/32")) {
      traits.push_back(MakeTrait("subnet", interface->subnets[0]));
    }
  } else if (context.cards > 0) {
    traits.push_back(MakeTrait("scale-out", UsesLayer3(context) ? "L3" : "L2"));
  }
  size_t variables = 0;
  for (auto it = context.env.lower_bound("HCCL_");
       it != context.env.end() && it->first.starts_with("HCCL_") && variables < kMaxVariables;
       ++it) {
    // An interface may well be called otherwise on another node.
    if (it->first == "HCCL_SOCKET_IFNAME" || SaysSecret(it->first)) continue;
    traits.push_back(MakeTrait("env." + it->first, it->second.substr(0, kMaxValueBytes)));
    ++variables;
  }
  return traits;
}

std::vector<v1::NodeTrait> InstanceTraits(const Ec2Instance& instance) {
  return {MakeTrait("availability-zone", instance.availability_zone),
          MakeTrait("placement-group", instance.placement_group),
          MakeTrait("instance-type", instance.type)};
}

}  // namespace muster
