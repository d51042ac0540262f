#include "agent/daemon/card_reader.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/devices/cards.h"
#include "agent/devices/sysfs_cards.h"
#include "common/log/log.h"

namespace muster {
namespace {

// More often would be a mistake of the coordinator.
constexpr Duration kShortestInterval = std::chrono::milliseconds(100);
// Between looks for cards that were not there before. Where there are none one costs nothing.
constexpr Duration kLookEvery = std::chrono::seconds(15);
constexpr Duration kLookForFirstEvery = std::chrono::seconds(3);

// What has to be told when it changes. A reset that passes is none of it.
std::string EssenceOf(v1::DeviceInventory inventory) {
  std::string text;
  for (const uint32_t module : UsableModules(inventory)) text += std::to_string(module) + ",";
  for (v1::Device& device : *inventory.mutable_devices()) {
    device.clear_status();
    device.clear_ports();
    device.clear_serial();
  }
  return text + inventory.SerializeAsString();
}

// Of the library, which is not asked again and again; not what sysfs says of cards.
void DropAsides(v1::DeviceInventory& inventory) {
  auto& problems = *inventory.mutable_problems();
  problems.erase(std::remove_if(problems.begin(), problems.end(),
                                [](const v1::Problem& problem) {
                                  return problem.check() == "hlml" || problem.check() == "hl-smi";
                                }),
                 problems.end());
}

}  // namespace

CardReader::CardReader(EventLoop& loop, DeviceOptions options, const std::string& mode)
    : loop_(loop), options_(std::move(options)), mode_(mode) {
  if (mode_ == "none") return;
  inventory_ = ReadInventory(options_);
  for (const v1::Problem& problem : inventory_.problems()) {
    spdlog::warn("card check={} problem={}", problem.check(), LogQuoted(problem.message()));
  }
  const std::vector<uint32_t> usable = UsableModules(inventory_);
  if (!usable.empty()) {
    spdlog::info("cards source={} usable={} of={}", inventory_.source(), usable.size(),
                 inventory_.devices_size());
  } else if (mode_ == "gaudi") {
    spdlog::error("no Gaudi card can be used, and this node is to offer nothing else");
  }
}

CardReader::~CardReader() {
  loop_.Cancel(timer_);
  loop_.Cancel(look_timer_);
}

void CardReader::AddTo(v1::NodeFacts& facts) const {
  if (mode_ == "none") return;
  v1::DeviceInventory& told = *facts.mutable_devices();
  told = inventory_;
  // Readings have how many of them have a link; all of them would make the facts large.
  for (v1::Device& device : *told.mutable_devices()) device.clear_ports();
  const std::vector<uint32_t> usable = UsableModules(inventory_);
  if (usable.empty() && mode_ != "gaudi") return;
  facts.mutable_slots()->Assign(usable.begin(), usable.end());
  facts.set_slots_are_cards(true);
}

std::vector<internal::ShimCard> CardReader::ShimCards() const {
  std::vector<internal::ShimCard> cards;
  for (const v1::Device& device : inventory_.devices()) {
    internal::ShimCard& card = cards.emplace_back();
    card.set_module_id(device.module_id());
    card.set_pci_address(device.pci_address());
    card.set_device_node(device.device_node());
    if (inventory_.source() == "sysfs") {
      card.set_status_path(StatusPathOf(options_.sysroot, device));
    }
  }
  return cards;
}

void CardReader::SetInterval(Duration interval) {
  interval_ =
      interval > Duration::zero() ? std::max(interval, kShortestInterval) : Duration::zero();
  loop_.Cancel(timer_);
  timer_ = 0;
  if (interval_ > Duration::zero() && !inventory_.devices().empty()) Ask();
}

void CardReader::Ask() {
  timer_ = loop_.PostAfter(interval_, [this] {
    timer_ = 0;
    Ask();
  });
  // One that takes longer than the interval is not followed by a queue of others.
  if (std::exchange(asking_, true)) return;
  worker().Post([this, known = inventory_, &loop = loop_, alive = std::weak_ptr<int>(alive_)] {
    std::vector<v1::DeviceReading> readings = ReadCards(options_, known);
    loop.Post([this, alive, readings = std::move(readings)]() mutable {
      if (alive.expired()) return;
      asking_ = false;
      readings_ = std::move(readings);
    });
  });
}

WorkerThread& CardReader::worker() {
  if (!worker_) worker_ = std::make_unique<WorkerThread>("cards");
  return *worker_;
}

void CardReader::WatchForChanges(std::function<void()> changed) {
  if (mode_ == "none" || inventory_.source() == "hl-smi") return;
  changed_ = std::move(changed);
  look_timer_ = loop_.PostAfter(inventory_.devices().empty() ? kLookForFirstEvery : kLookEvery,
                                [this] { LookAgain(); });
}

void CardReader::LookAgain() {
  look_timer_ = loop_.PostAfter(inventory_.devices().empty() ? kLookForFirstEvery : kLookEvery,
                                [this] { LookAgain(); });
  if (std::exchange(looking_, true)) return;
  DeviceOptions cheap = options_;
  cheap.sysfs_only = true;
  worker().Post(
      [this, cheap = std::move(cheap), &loop = loop_, alive = std::weak_ptr<int>(alive_)] {
        v1::DeviceInventory now = ReadInventory(cheap);
        loop.Post([this, alive, now = std::move(now)]() mutable {
          if (alive.expired()) return;
          looking_ = false;
          TakeInventory(std::move(now));
        });
      });
}

void CardReader::TakeInventory(v1::DeviceInventory now) {
  v1::DeviceInventory before = inventory_;
  DropAsides(before);
  if (EssenceOf(before) == EssenceOf(now)) return;
  for (v1::Device& device : *now.mutable_devices()) {
    for (const v1::Device& known : before.devices()) {
      if (known.module_id() == device.module_id() && known.pci_address() == device.pci_address()) {
        device.set_serial(known.serial());
      }
    }
  }
  inventory_ = std::move(now);
  spdlog::warn("cards changed usable={} of={}", UsableModules(inventory_).size(),
               inventory_.devices_size());
  for (const v1::Problem& problem : inventory_.problems()) {
    spdlog::warn("card check={} problem={}", problem.check(), LogQuoted(problem.message()));
  }
  if (interval_ > Duration::zero() && timer_ == 0 && !inventory_.devices().empty()) Ask();
  changed_();
}

std::vector<v1::DeviceReading> CardReader::TakeReadings() { return std::exchange(readings_, {}); }

}  // namespace muster
