#include "agent/devices/card_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "agent/devices/cards.h"
#include "agent/devices/sysfs_cards.h"

namespace muster {
namespace {

v1::CheckResult Result(const char* check, v1::Verdict verdict, std::string message,
                       std::string fix = "") {
  v1::CheckResult result;
  result.set_check(check);
  result.set_verdict(verdict);
  result.set_message(std::move(message));
  result.set_fix(std::move(fix));
  return result;
}

std::vector<const v1::Device*> WithModule(const v1::DeviceInventory& inventory, uint32_t module) {
  std::vector<const v1::Device*> found;
  for (const v1::Device& device : inventory.devices()) {
    if (device.module_id() == module) found.push_back(&device);
  }
  return found;
}

std::string Card(const v1::Device& device) {
  return fmt::format("module {} (index {}{}{})", device.module_id(), device.index(),
                     device.pci_address().empty() ? "" : ", ", device.pci_address());
}

std::string Join(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, "; "));
}

v1::CheckResult CheckPresence(const v1::LaunchSpec& launch, const v1::DeviceInventory& inventory,
                              bool wait_follows) {
  std::vector<std::string> broken;
  std::vector<std::string> passing;
  for (const v1::RankSpec& rank : launch.ranks()) {
    const std::vector<const v1::Device*> cards = WithModule(inventory, rank.slot());
    if (cards.empty()) {
      broken.push_back(fmt::format("module {} is not there", rank.slot()));
    } else if (cards.size() > 1) {
      broken.push_back(fmt::format("module {} is the id of {} cards", rank.slot(), cards.size()));
    } else if (cards.front()->device_node().empty() && inventory.source() != "hl-smi") {
      broken.push_back(fmt::format("{} has no device node", Card(*cards.front())));
    } else if (const CardState state = StateOfCard(cards.front()->status());
               state != CardState::kReady) {
      (state == CardState::kPassing ? passing : broken)
          .push_back(fmt::format("{}: {}", Card(*cards.front()), cards.front()->status()));
    }
  }
  if (!broken.empty() || (!passing.empty() && !wait_follows)) {
    for (std::string& text : passing) broken.push_back(std::move(text));
    return Result("cards", v1::FAIL, Join(broken),
                  "look at the kernel's log (dmesg) and hl-smi on the node");
  }
  if (!passing.empty()) return Result("cards", v1::WARN, Join(passing) + ": it is waited for");
  // Who asks for a look at the node wants to hear of all cards; starts have a warning of their own.
  if (!wait_follows && !inventory.problems().empty()) {
    std::vector<std::string> told;
    for (const v1::Problem& problem : inventory.problems()) told.push_back(problem.message());
    return Result("cards", v1::WARN, Join(told),
                  "look at the kernel's log (dmesg) and hl-smi on the node");
  }
  std::vector<uint32_t> modules;
  for (const v1::RankSpec& rank : launch.ranks()) modules.push_back(rank.slot());
  std::sort(modules.begin(), modules.end());
  return Result("cards", v1::PASS,
                fmt::format("{} of {} cards wanted, modules {}, ready", modules.size(),
                            inventory.devices_size(), fmt::join(modules, ",")));
}

v1::CheckResult CheckBusy(const v1::LaunchSpec& launch, const v1::DeviceInventory& inventory,
                          const std::vector<CardHolder>& holders, bool wait_follows) {
  std::vector<std::string> busy;
  for (const v1::RankSpec& rank : launch.ranks()) {
    for (const CardHolder& holder : holders) {
      if (holder.module_id != rank.slot()) continue;
      const auto cards = WithModule(inventory, rank.slot());
      busy.push_back(
          fmt::format("{} is held by {}",
                      cards.empty() ? fmt::format("module {}", rank.slot()) : Card(*cards.front()),
                      DescribeHolder(holder.holder)));
    }
  }
  if (busy.empty()) return Result("card-busy", v1::PASS, "no process holds the cards");
  if (wait_follows) return Result("card-busy", v1::WARN, Join(busy) + ": it is waited for");
  return Result("card-busy", v1::FAIL, Join(busy), "wait for its end, or choose other cards");
}

v1::CheckResult CheckPorts(const v1::LaunchSpec& launch, const v1::DeviceInventory& inventory,
                           bool host_network) {
  std::vector<std::string> down;
  std::vector<std::string> outer_down;
  std::vector<std::string> unclear;
  size_t known = 0;
  for (const v1::RankSpec& rank : launch.ranks()) {
    for (const v1::Device* card : WithModule(inventory, rank.slot())) {
      std::vector<uint32_t> inner;
      std::vector<uint32_t> outer;
      for (const v1::DevicePort& port : card->ports()) {
        ++known;
        // Those that leave the machine are of no use to a job that does not.
        if (!port.up() && port.external() && launch.node_count() <= 1) continue;
        if (!port.up()) (port.external() ? outer : inner).push_back(port.port());
      }
      const auto told = [&](const std::vector<uint32_t>& ports) {
        return fmt::format("{}: port{} {} down", Card(*card), ports.size() == 1 ? "" : "s",
                           fmt::join(ports, ", "));
      };
      // Which ports of a Gaudi 3 leave the machine is not known here; those need not have a link.
      const bool is_clear = !card->type().starts_with("GAUDI3");
      if (!inner.empty()) (is_clear ? down : unclear).push_back(told(inner));
      if (!outer.empty()) outer_down.push_back(told(outer));
    }
  }
  if (known == 0) {
    return Result("card-ports", v1::SKIPPED, "the links of the cards' ports are not known");
  }
  const char* const fix = "look at the cables and the switch, and at `hl-smi -n link` on the node";
  if (!down.empty()) {
    std::move(outer_down.begin(), outer_down.end(), std::back_inserter(down));
    return Result("card-ports", v1::FAIL, Join(down), fix);
  }
  if (!unclear.empty() && outer_down.empty()) {
    return Result("card-ports", v1::WARN,
                  Join(unclear) + "; whether they lead to other cards here is not known", fix);
  }
  if (!outer_down.empty()) {
    return host_network
               ? Result("card-ports", v1::PASS,
                        Join(outer_down) + "; HCCL_OVER_OFI uses the network of the host instead")
               : Result("card-ports", v1::FAIL, Join(outer_down), fix);
  }
  return Result("card-ports", v1::PASS, "the ports of the cards that the job uses have a link");
}

}  // namespace

std::string DescribeHolder(const v1::DeviceHolder& holder) {
  std::string text = fmt::format("pid {} of {}", holder.pid(), holder.user());
  if (!holder.command().empty()) text += fmt::format(" ({})", holder.command());
  if (!holder.job_id().empty()) text += fmt::format(", job {}", holder.job_id());
  return text;
}

std::vector<v1::CheckResult> CheckCards(const v1::LaunchSpec& launch,
                                        const v1::DeviceInventory& inventory,
                                        const std::vector<CardHolder>& holders,
                                        const CardCheckOptions& options) {
  std::vector<v1::CheckResult> results;
  if (!options.runtime_error.empty()) {
    results.push_back(Result(
        "runtime-error", launch.slots_are_cards() ? v1::FAIL : v1::WARN,
        fmt::format("HABANA_RUNTIME_ERROR is set in the agent's environment, the container did not "
                    "get its cards: {}",
                    options.runtime_error),
        "see /var/log/habana-container-runtime.log on the host"));
  } else if (launch.slots_are_cards()) {
    results.push_back(Result("runtime-error", v1::PASS, "HABANA_RUNTIME_ERROR is not set"));
  }
  if (!launch.slots_are_cards()) return results;
  results.push_back(CheckPresence(launch, inventory, options.wait_follows));
  results.push_back(CheckBusy(launch, inventory, holders, options.wait_follows));
  if (launch.ranks_size() > 1 || launch.node_count() > 1) {
    results.push_back(CheckPorts(launch, inventory, options.host_network));
  }
  return results;
}

}  // namespace muster
