// What a campaign does to the connections between agents and the coordinator.
#include <utility>

#include "tests/campaign/kills/campaign.h"

namespace muster::testing {

using std::chrono::milliseconds;

void Campaign::AddRelays() {
  for (int index = 1; index <= kNodes; ++index) {
    const std::string address = "unix:" + cluster_.box().Path("r" + std::to_string(index));
    relays_[index] = std::make_unique<Relay>(address, "unix:" + cluster_.socket());
    relays_[index]->Record();
    cluster_.SetCoordinatorOf(index, address);
  }
}

bool Campaign::HarmTheNetwork() {
  if (Clock::now() < network_due_) return false;
  network_due_ = SoonAfter(milliseconds(120));
  const auto pick = [this](uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random_);
  };
  const int index = static_cast<int>(pick(1, kNodes));
  Relay& relay = *relays_.at(index);
  Harm& harm = harms_[index];
  const uint64_t told = relay.counts().bytes_to_client;
  if (std::exchange(harm.lasts, false)) {
    relay.Set({});
    harm.told_before = told;
    return false;
  }
  // An agent that never gets through for a lease is lost, rightly: first it hears something.
  if (told <= harm.told_before) return false;
  harm = {.lasts = true, .told_before = told};
  RelayFaults faults;
  switch (pick(1, 8)) {
    case 1:
      relay.CutAll(Relay::Cut::kClose);
      break;
    case 2:
      relay.CutAll(Relay::Cut::kReset);
      faults.refuse = true;
      break;
    case 3:
      faults.delay = milliseconds(pick(1, 60));
      break;
    case 4:
      faults.bytes_per_second = pick(10'000, 2'000'000);
      break;
    case 5:
      faults.hold_to_server = faults.hold_to_client = true;
      break;
    case 6:
      (pick(0, 1) == 0 ? faults.hold_to_server : faults.hold_to_client) = true;
      break;
    case 7:
      (pick(0, 1) == 0 ? faults.swallow_to_server : faults.swallow_to_client) = true;
      break;
    default:
      faults.swallow_to_server = faults.swallow_to_client = true;
      break;
  }
  relay.Set(faults);
  return true;
}

bool Campaign::ReplayConnections() {
  if (Clock::now() < network_due_) return false;
  network_due_ = SoonAfter(milliseconds(300));
  for (auto& [index, relay] : relays_) {
    relay->Replay();
    // New connections are there to be recorded, and the replayed ones do not pile up.
    if (std::uniform_int_distribution<int>(0, 1)(random_) == 0) relay->CutAll();
  }
  return true;
}

uint64_t Campaign::replayed() const {
  uint64_t sum = 0;
  for (const auto& [index, relay] : relays_) sum += relay->counts().replayed;
  return sum;
}

}  // namespace muster::testing
