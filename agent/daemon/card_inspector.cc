#include "agent/daemon/card_inspector.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/core/compose.h"
#include "agent/devices/card_checks.h"

namespace muster {
namespace {

// What the container runtime that made the agent's own container had to say; empty: nothing.
std::string RuntimeError(const std::vector<std::string>& environ) {
  constexpr std::string_view kStart = "HABANA_RUNTIME_ERROR=";
  for (const std::string& pair : environ) {
    if (pair.starts_with(kStart)) return pair.substr(kStart.size());
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
  choices.runtime_error = RuntimeError(cards_.options().environ);
  choices.host_network =
      VariableOfFirstRank(request.launch, request.bootstrap, "HCCL_OVER_OFI") == "1";
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
  loop_.PostAfter(look_limit_, [answer, limit = look_limit_, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired()) return;
    v1::CheckResult late;
    late.set_check("cards");
    late.set_verdict(v1::WARN);
    late.set_message(
        fmt::format("the cards could not be looked at within {} ms, the driver does not answer",
                    limit.count()));
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
