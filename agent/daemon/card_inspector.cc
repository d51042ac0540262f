#include "agent/daemon/card_inspector.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "agent/devices/card_checks.h"

namespace muster {
namespace {

// A driver that does not answer for so long is no reason to wait for it.
constexpr std::chrono::seconds kLookLimit{3};

// Value of a variable in a list of `NAME=value`; empty: not set.
std::string ValueOf(const google::protobuf::RepeatedPtrField<std::string>& env,
                    std::string_view name) {
  for (const std::string& pair : env) {
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return pair.substr(name.size() + 1);
    }
  }
  return "";
}

// The cards as they are now. hl-smi, and what libhlml adds, are not asked again: a start should not
// wait for them.
v1::DeviceInventory LookAgain(DeviceOptions options, v1::DeviceInventory known) {
  if (known.source() == "hl-smi") return known;
  options.own_program.clear();
  return ReadInventory(options);
}

}  // namespace

void CardInspector::Inspect(const InspectionRequest& request, Done done) {
  CardCheckOptions choices;
  // The shim of a start takes the leases, waits, and refuses then.
  choices.wait_follows = !request.thorough;
  choices.runtime_error = ValueOf(
      {cards_.options().environ.begin(), cards_.options().environ.end()}, "HABANA_RUNTIME_ERROR");
  choices.host_network = !request.bootstrap.ranks().empty() &&
                         ValueOf(request.bootstrap.ranks(0).env(), "HCCL_OVER_OFI") == "1";
  // Whoever is first takes it: the look, or the end of its time.
  const auto waiting = std::make_shared<Done>(std::move(done));
  const auto answer = [this, alive = std::weak_ptr<int>(alive_),
                       waiting](std::vector<v1::CheckResult> results) {
    loop_.Post([alive, waiting, results = std::move(results)] {
      if (alive.expired()) return;
      const Done first = std::exchange(*waiting, nullptr);
      if (!first) return;
      Inspection inspection;
      inspection.report.mutable_results()->Assign(results.begin(), results.end());
      first(std::move(inspection));
    });
  };
  if (!request.launch.slots_are_cards()) {
    return answer(CheckCards(request.launch, {}, {}, choices));
  }
  loop_.PostAfter(kLookLimit, [answer, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired()) return;
    v1::CheckResult late;
    late.set_check("cards");
    late.set_verdict(v1::WARN);
    late.set_message(
        fmt::format("the cards could not be looked at within {} s, the driver does not "
                    "answer",
                    kLookLimit.count()));
    late.set_fix("look at the kernel's log (dmesg) on the node");
    answer({late});
  });
  if (worker_ == nullptr) worker_ = std::make_unique<WorkerThread>("card-checks");
  worker_->Post([answer, choices, options = cards_.options(), known = cards_.inventory(),
                 launch = request.launch] {
    const v1::DeviceInventory now = LookAgain(options, known);
    answer(CheckCards(launch, now, FindHolders(options, now), choices));
  });
}

}  // namespace muster
