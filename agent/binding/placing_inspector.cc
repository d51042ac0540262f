#include "agent/binding/placing_inspector.h"

#include <fmt/format.h>

#include <iterator>
#include <system_error>
#include <utility>

#include "agent/binding/try_placements.h"
#include "common/base/annotate.h"

namespace muster {

Placements PlaceOnNode(const v1::LaunchSpec& launch, const v1::DeviceInventory& devices,
                       const BindVariables& variables, LazyTopology& topology) {
  const absl::StatusOr<TopologyFacts> facts = topology.Get();
  if (!facts.ok()) {
    Placements placements = PlaceNowhere(launch, std::string(MessageOf(facts.status())));
    placements.warnings.push_back(
        fmt::format("ranks are not bound: {}", MessageOf(facts.status())));
    return placements;
  }
  Placements placements = PlaceRanks(launch, devices, *facts, variables);
  TryPlacements(&placements);
  return placements;
}

void AddPlacements(Placements placements, Inspection* inspection) {
  inspection->placements = std::move(placements.ranks);
  std::move(placements.warnings.begin(), placements.warnings.end(),
            std::back_inserter(inspection->warnings));
  std::move(placements.problems.begin(), placements.problems.end(),
            std::back_inserter(inspection->problems));
}

PlacingInspector::PlacingInspector(Executor& executor, std::function<v1::DeviceInventory()> devices,
                                   const std::string& root)
    : executor_(executor), devices_(std::move(devices)), topology_(root) {}

PlacingInspector::~PlacingInspector() {
  for (std::thread& thread : threads_) thread.join();
}

void PlacingInspector::Inspect(const InspectionRequest& request, Done done) {
  if (!NeedsTopology(request.launch)) {
    return Answer(PlaceWithoutTopology(request.launch), std::move(done));
  }
  const auto place = threads_.emplace(threads_.end());
  try {
    *place = std::thread([this, place, done, launch = request.launch, devices = devices_(),
                          variables = ReadBindVariables(request.bootstrap)] {
      AnswerFrom(place, PlaceOnNode(launch, devices, variables, topology_), done);
    });
  } catch (const std::system_error& error) {
    threads_.erase(place);
    Placements placements = PlaceNowhere(request.launch, "there was no thread to find a place");
    placements.warnings.push_back(
        fmt::format("ranks are not bound: no thread can be had: {}", error.what()));
    Answer(std::move(placements), std::move(done));
  }
}

void PlacingInspector::Answer(Placements placements, Done done) {
  executor_.Post([alive = std::weak_ptr<int>(alive_), placements = std::move(placements),
                  done = std::move(done)]() mutable {
    if (alive.expired()) return;
    Inspection inspection;
    AddPlacements(std::move(placements), &inspection);
    done(std::move(inspection));
  });
}

void PlacingInspector::AnswerFrom(std::list<std::thread>::iterator thread, Placements placements,
                                  Done done) {
  executor_.Post([this, alive = std::weak_ptr<int>(alive_), thread,
                  placements = std::move(placements), done = std::move(done)]() mutable {
    if (alive.expired()) return;
    // It has nothing left to do but to end.
    thread->join();
    threads_.erase(thread);
    Inspection inspection;
    AddPlacements(std::move(placements), &inspection);
    done(std::move(inspection));
  });
}

}  // namespace muster
