#include "agent/checks/composite_inspector.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/utf8.h"

namespace muster {
namespace {

// Of one report: they travel in one message with those of other attempts.
constexpr int kMaxResults = 200;
constexpr int kMaxTraits = 200;
constexpr size_t kMaxMessageBytes = 2000;

bool Contains(const google::protobuf::RepeatedPtrField<std::string>& names,
              const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void Cut(std::string* text) {
  if (text->size() > kMaxMessageBytes) text->resize(kMaxMessageBytes);
  // Paths, variables and what programs say are bytes; a cut may split a character.
  *text = ValidUtf8(std::move(*text));
}

// Puts one part's findings behind those of the parts before it.
void Merge(Inspection part, Inspection& whole) {
  for (v1::Problem& problem : part.problems) whole.problems.push_back(std::move(problem));
  for (std::string& warning : part.warnings) whole.warnings.push_back(std::move(warning));
  whole.report.MergeFrom(part.report);
  for (v1::RankPlacement& placement : part.placements) {
    whole.placements.push_back(std::move(placement));
  }
}

}  // namespace

void CompositeInspector::Inspect(const InspectionRequest& request, Done done) {
  struct Pending {
    v1::LaunchSpec choices;
    bool thorough = false;
    std::vector<Inspection> parts;
    size_t missing = 0;
    Done done;
  };
  auto pending = std::make_shared<Pending>();
  *pending->choices.mutable_skip_checks() = request.launch.skip_checks();
  *pending->choices.mutable_require_checks() = request.launch.require_checks();
  pending->thorough = request.thorough;
  pending->parts.resize(parts_.size());
  pending->missing = parts_.size();
  pending->done = std::move(done);
  const auto finish = [alive = std::weak_ptr<int>(alive_)](Pending& all) {
    if (alive.expired()) return;
    Inspection whole;
    for (Inspection& part : all.parts) Merge(std::move(part), whole);
    DrawConsequences(all.choices, all.thorough, whole);
    all.done(std::move(whole));
  };
  if (parts_.empty()) {
    executor_.Post([pending, finish] { finish(*pending); });
    return;
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i]->Inspect(request, [pending, finish, i](Inspection found) {
      pending->parts[i] = std::move(found);
      if (--pending->missing == 0) finish(*pending);
    });
  }
}

void DrawConsequences(const v1::LaunchSpec& launch, bool thorough, Inspection& inspection) {
  v1::NodeReport report;
  report.mutable_traits()->Swap(inspection.report.mutable_traits());
  if (report.traits_size() > kMaxTraits) {
    report.mutable_traits()->DeleteSubrange(kMaxTraits, report.traits_size() - kMaxTraits);
  }
  for (v1::NodeTrait& trait : *report.mutable_traits()) {
    Cut(trait.mutable_name());
    Cut(trait.mutable_value());
  }
  for (v1::Problem& problem : inspection.problems) {
    problem.set_message(ValidUtf8(std::move(*problem.mutable_message())));
  }
  for (std::string& warning : inspection.warnings) warning = ValidUtf8(std::move(warning));
  for (v1::CheckResult& result : *inspection.report.mutable_results()) {
    if (report.results_size() >= kMaxResults) break;
    Cut(result.mutable_message());
    Cut(result.mutable_fix());
    if (Contains(launch.skip_checks(), result.check()) && result.verdict() != v1::SKIPPED) {
      result.set_verdict(v1::SKIPPED);
      result.set_message("left out on request");
      result.clear_fix();
    }
    if (result.verdict() == v1::WARN && Contains(launch.require_checks(), result.check())) {
      result.set_verdict(v1::FAIL);
    }
    if (result.verdict() == v1::FAIL) {
      v1::Problem& problem = inspection.problems.emplace_back();
      problem.set_check(result.check());
      problem.set_message(result.fix().empty()
                              ? result.message()
                              : fmt::format("{} ({})", result.message(), result.fix()));
    }
    if (thorough || result.verdict() == v1::WARN) *report.add_results() = std::move(result);
  }
  inspection.report = std::move(report);
}

}  // namespace muster
