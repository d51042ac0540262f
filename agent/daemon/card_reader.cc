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

CardReader::~CardReader() { loop_.Cancel(timer_); }

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
  if (!worker_) worker_ = std::make_unique<WorkerThread>("cards");
  worker_->Post([this, &loop = loop_, alive = std::weak_ptr<int>(alive_)] {
    std::vector<v1::DeviceReading> readings = ReadCards(options_, inventory_);
    loop.Post([this, alive, readings = std::move(readings)]() mutable {
      if (alive.expired()) return;
      asking_ = false;
      readings_ = std::move(readings);
    });
  });
}

std::vector<v1::DeviceReading> CardReader::TakeReadings() { return std::exchange(readings_, {}); }

}  // namespace muster
