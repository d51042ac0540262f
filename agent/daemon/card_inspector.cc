#include "agent/daemon/card_inspector.h"

#include <string>
#include <utility>

#include "agent/devices/card_checks.h"

namespace muster {
namespace {

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
  const auto answer = [this, alive = std::weak_ptr<int>(alive_),
                       done = std::move(done)](std::vector<v1::CheckResult> results) {
    loop_.Post([alive, done, results = std::move(results)] {
      if (alive.expired()) return;
      Inspection inspection;
      inspection.report.mutable_results()->Assign(results.begin(), results.end());
      done(std::move(inspection));
    });
  };
  if (!request.launch.slots_are_cards()) {
    return answer(CheckCards(request.launch, {}, {}, choices));
  }
  if (worker_ == nullptr) worker_ = std::make_unique<WorkerThread>("card-checks");
  worker_->Post([answer, choices, options = cards_.options(), known = cards_.inventory(),
                 launch = request.launch] {
    const v1::DeviceInventory now = LookAgain(options, known);
    answer(CheckCards(launch, now, FindHolders(options, now), choices));
  });
}

}  // namespace muster
