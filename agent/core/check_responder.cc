#include "agent/core/check_responder.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

using google::protobuf::util::TimeUtil;
using std::chrono::milliseconds;

constexpr int kMostChecks = 8;
constexpr milliseconds kDefaultLimit{10'000};
constexpr milliseconds kLongestLimit{60'000};

milliseconds LimitOf(const v1::RunCheck& request) {
  if (!request.has_limit()) return kDefaultLimit;
  return std::clamp(milliseconds(TimeUtil::DurationToMilliseconds(request.limit())),
                    milliseconds(1), kLongestLimit);
}

// Problems that are not among the results already.
void AddProblems(const std::vector<v1::Problem>& problems, v1::NodeReport& report) {
  for (const v1::Problem& problem : problems) {
    const bool told = std::any_of(
        report.results().begin(), report.results().end(), [&](const v1::CheckResult& result) {
          return result.check() == problem.check() && result.verdict() == v1::FAIL;
        });
    if (told) continue;
    v1::CheckResult& result = *report.add_results();
    result.set_check(problem.check());
    result.set_verdict(v1::FAIL);
    result.set_message(problem.message());
  }
}

void AddWarnings(const std::vector<std::string>& warnings, v1::NodeReport& report) {
  for (const std::string& warning : warnings) {
    v1::CheckResult& result = *report.add_results();
    result.set_check("node");
    result.set_verdict(v1::WARN);
    result.set_message(warning);
  }
}

v1::CheckReport FailureOf(const std::string& check, std::string message) {
  v1::CheckReport report;
  v1::CheckResult& result = *report.mutable_node()->add_results();
  result.set_check(check);
  result.set_verdict(v1::FAIL);
  result.set_message(std::move(message));
  return report;
}

}  // namespace

struct CheckResponder::Check {
  std::string id;
  milliseconds limit{0};
  bool answered = false;
  Executor::TimerId timer = 0;
};

CheckResponder::CheckResponder(
    Executor& executor, UserGate& users, NodeInspector* inspector, NetworkTester* network,
    WithContext context, std::function<google::protobuf::RepeatedPtrField<std::string>()> addresses,
    Send send, Tell tell)
    : executor_(executor),
      users_(users),
      inspector_(inspector),
      network_(network),
      with_context_(std::move(context)),
      addresses_(std::move(addresses)),
      send_(std::move(send)),
      tell_(std::move(tell)) {}

void CheckResponder::OnRunCheck(const v1::RunCheck& request) {
  if (running_ >= kMostChecks) {
    v1::CheckReport refusal;
    refusal.set_check_id(request.check_id());
    refusal.set_error(fmt::format("the node makes {} checks already: try again", kMostChecks));
    return send_(std::move(refusal));
  }
  ++running_;
  const auto check = std::make_shared<Check>();
  check->id = request.check_id();
  check->limit = LimitOf(request);
  check->timer =
      executor_.PostAfter(check->limit, [this, check, alive = std::weak_ptr<int>(alive_)] {
        if (alive.expired()) return;
        check->timer = 0;
        ReportError(check, fmt::format("not done within {} ms", check->limit.count()));
      });
  switch (request.what_case()) {
    case v1::RunCheck::kNode:
      return Inspect(check, request.node().launch());
    case v1::RunCheck::kListen:
    case v1::RunCheck::kConnect:
      return RunNetwork(check, request);
    case v1::RunCheck::WHAT_NOT_SET:
      break;
  }
  ReportError(check, "this version of the agent does not know this check");
}

void CheckResponder::Inspect(const std::shared_ptr<Check>& check, const v1::LaunchSpec& launch) {
  if (inspector_ == nullptr) return ReportError(check, "this agent makes no checks");
  users_.Admit(launch.user(), [this, check, launch, alive = std::weak_ptr<int>(alive_)](
                                  const absl::StatusOr<RunAs>& user) {
    if (alive.expired() || check->answered) return;
    if (!user.ok()) {
      return Report(check, FailureOf("user", std::string(user.status().message())));
    }
    with_context_(launch, *user,
                  [this, check, launch, user = *user, alive](ComposeContext context) {
                    if (alive.expired() || check->answered) return;
                    InspectAs(check, launch, user, std::move(context));
                  });
  });
}

void CheckResponder::InspectAs(const std::shared_ptr<Check>& check, const v1::LaunchSpec& launch,
                               const RunAs& user, ComposeContext context) {
  context.attempt = AttemptId{JobId("check"), 0};
  const absl::StatusOr<internal::ShimBootstrap> bootstrap = ComposeBootstrap(launch, context);
  if (!bootstrap.ok()) {
    return Report(check, FailureOf(CheckOfComposing(bootstrap.status()),
                                   std::string(bootstrap.status().message())));
  }
  tell_({.kind = Deed::Kind::kCheck,
         .attempt = context.attempt,
         .submitter = launch.submitter(),
         .user = user.self ? "" : user.name,
         .argv = {launch.argv().begin(), launch.argv().end()},
         .directory = launch.working_directory()});
  const InspectionRequest request{context.attempt, launch, user, *bootstrap, true};
  inspector_->Inspect(request,
                      [this, check, alive = std::weak_ptr<int>(alive_)](Inspection inspection) {
                        if (alive.expired()) return;
                        v1::CheckReport report;
                        *report.mutable_node() = std::move(inspection.report);
                        AddWarnings(inspection.warnings, *report.mutable_node());
                        AddProblems(inspection.problems, *report.mutable_node());
                        Report(check, std::move(report));
                      });
}

void CheckResponder::RunNetwork(const std::shared_ptr<Check>& check, const v1::RunCheck& request) {
  if (network_ == nullptr) return ReportError(check, "this agent does not test networks");
  if (request.has_listen()) {
    network_->Listen(
        request.listen(), check->limit,
        [this, check, alive = std::weak_ptr<int>(alive_)](const absl::StatusOr<uint32_t>& port) {
          if (alive.expired()) return;
          if (!port.ok()) {
            return ReportError(check, std::string(port.status().message()));
          }
          v1::CheckReport report;
          report.mutable_listening()->set_port(*port);
          *report.mutable_listening()->mutable_addresses() = addresses_();
          Report(check, std::move(report));
        });
    return;
  }
  network_->Connect(request.connect(), check->limit,
                    [this, check, alive = std::weak_ptr<int>(alive_)](
                        const absl::StatusOr<v1::NetworkRate>& rate) {
                      if (alive.expired()) return;
                      if (!rate.ok()) {
                        return ReportError(check, std::string(rate.status().message()));
                      }
                      v1::CheckReport report;
                      *report.mutable_rate() = *rate;
                      Report(check, std::move(report));
                    });
}

void CheckResponder::Report(const std::shared_ptr<Check>& check, v1::CheckReport report) {
  if (std::exchange(check->answered, true)) return;
  --running_;
  executor_.Cancel(check->timer);
  report.set_check_id(check->id);
  send_(std::move(report));
}

void CheckResponder::ReportError(const std::shared_ptr<Check>& check, std::string error) {
  v1::CheckReport report;
  report.set_error(std::move(error));
  Report(check, std::move(report));
}

}  // namespace muster
