// The part of the agent's core that starts shims.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/core/agent_core.h"
#include "agent/core/assignments.h"
#include "agent/core/compose.h"
#include "agent/core/describe.h"
#include "agent/core/shim_events.h"

namespace muster {

using internal::JournalAttempt;
using std::chrono::milliseconds;

void AgentCore::Launch(const AttemptId& id) {
  const JournalAttempt& attempt = state_.attempts.at(id);
  if (!attempt.assignment().has_launch()) {
    return RefuseLaunch(id, "supervisor", "the coordinator sent no launch specification");
  }
  live_[id].shim = ShimState::kAwaited;
  users_.Admit(attempt.assignment().launch().user(),
               [this, id, alive = std::weak_ptr<int>(alive_)](const absl::StatusOr<RunAs>& user) {
                 if (alive.expired() || !GoesOn(id)) return;
                 if (!user.ok())
                   return RefuseLaunch(id, "user", std::string(user.status().message()));
                 live_[id].shim = ShimState::kAwaited;
                 WithContext(state_.attempts.at(id).assignment().launch(), *user,
                             [this, id, user = *user, alive](ComposeContext context) {
                               if (alive.expired() || !GoesOn(id)) return;
                               ComposeAs(id, user, std::move(context));
                             });
               });
}

bool AgentCore::GoesOn(const AttemptId& id) {
  const auto live = live_.find(id);
  if (live == live_.end() || live->second.shim != ShimState::kAwaited) return false;
  live->second.shim = ShimState::kNone;
  const auto found = state_.attempts.find(id);
  if (found == state_.attempts.end() || found->second.stopped()) return false;
  // Stopped, or without a journal or a coordinator by now: as if it had not begun.
  if (found->second.assignment().desired() != v1::Assignment::PREPARED || !journal_ok_ ||
      !synced_) {
    ScheduleReconcile();
    return false;
  }
  return true;
}

std::optional<milliseconds> AgentCore::StopAfter(const v1::LaunchSpec& launch) const {
  const std::optional<milliseconds> of_job = StopAfterOf(launch);
  return of_job || !options_.ephemeral_after ? of_job : kEphemeralStopAfter;
}

void AgentCore::WithContext(const v1::LaunchSpec& launch, const RunAs& user,
                            std::function<void(ComposeContext)> done) const {
  ComposeContext context;
  context.user = user;
  context.node = options_.node_id;
  context.environ = options_.environ;
  context.home = options_.home;
  context.own_uid = options_.uid;
  context.own_gid = options_.gid;
  context.state = options_.state;
  if (options_.facts.devices().devices_size() > 0 && options_.read_profile) {
    context.profile = options_.read_profile();
  }
  context.fake_unkillable_rank = options_.fake_unkillable_rank;
  // Last: other facts take the place of these while engines are asked.
  const auto finish = [this, done = std::move(done)](ComposeContext complete) {
    complete.devices = &options_.facts.devices();
    done(std::move(complete));
  };
  if (!launch.has_container() || !options_.look_for_engines) return finish(std::move(context));
  options_.look_for_engines(launch, user,
                            [context = std::move(context), finish,
                             alive = std::weak_ptr<int>(alive_)](ContainerHost host) mutable {
                              if (alive.expired()) return;
                              context.container_host = std::move(host);
                              finish(std::move(context));
                            });
}

void AgentCore::ComposeAs(const AttemptId& id, const RunAs& user, ComposeContext context) {
  const v1::LaunchSpec& launch = state_.attempts.at(id).assignment().launch();
  context.attempt = id;
  absl::StatusOr<internal::ShimBootstrap> bootstrap = ComposeBootstrap(launch, context);
  if (!bootstrap.ok()) {
    return RefuseLaunch(id, CheckOfComposing(bootstrap.status()),
                        std::string(bootstrap.status().message()));
  }
  const std::string& asked = launch.rendezvous().address();
  if (asked.empty()) return InspectAs(id, user, *std::move(bootstrap));
  live_[id].shim = ShimState::kAwaited;
  const auto made = std::make_shared<internal::ShimBootstrap>(*std::move(bootstrap));
  network_.CheckOwn(
      asked, [this, id, user, made, alive = std::weak_ptr<int>(alive_)](const absl::Status& own) {
        if (alive.expired() || !GoesOn(id)) return;
        if (!own.ok()) return RefuseLaunch(id, "master-addr", std::string(own.message()));
        InspectAs(id, user, std::move(*made));
      });
}

void AgentCore::InspectAs(const AttemptId& id, const RunAs& user,
                          internal::ShimBootstrap bootstrap) {
  if (options_.inspector == nullptr) return LaunchAs(id, user, std::move(bootstrap), {});
  live_[id].shim = ShimState::kAwaited;
  const auto made = std::make_shared<internal::ShimBootstrap>(std::move(bootstrap));
  const InspectionRequest request{id, state_.attempts.at(id).assignment().launch(), user, *made};
  options_.inspector->Inspect(
      request, [this, id, user, made, alive = std::weak_ptr<int>(alive_)](Inspection inspection) {
        if (alive.expired() || !GoesOn(id)) return;
        if (!inspection.problems.empty()) return RefuseLaunch(id, inspection.problems);
        LaunchAs(id, user, std::move(*made), std::move(inspection));
      });
}

void AgentCore::LaunchAs(const AttemptId& id, const RunAs& user, internal::ShimBootstrap bootstrap,
                         Inspection inspection) {
  const v1::LaunchSpec& launch = state_.attempts.at(id).assignment().launch();
  if (const std::optional<milliseconds> stop_after = StopAfter(launch)) {
    const TimePoint fresh = session_.fresh_since().value_or(started_at_);
    const auto age = std::chrono::duration_cast<milliseconds>(executor_.clock().Now() - fresh);
    bootstrap.set_lease_ms(
        static_cast<uint64_t>(std::max(*stop_after - age, milliseconds(1)).count()));
  }
  ApplyPlacements(inspection.placements, &bootstrap);
  Live& live = live_[id];
  ++live.launches;
  live.shim = ShimState::kFollowed;
  live.inspection = std::move(inspection);
  Notice(AgentObserver::Severity::kInfo,
         fmt::format("launching {} ranks={} user=\"{}\"", Describe(id), launch.ranks_size(),
                     user.self ? "" : user.name));
  TellDeed(Deed::Kind::kLaunch, id, user.self ? "" : user.name,
           launch.has_container()
               ? fmt::format("in containers of {}{}", launch.container().image(),
                             launch.container().privileged() ? ", privileged" : "")
               : "");
  launcher_.Launch(id, std::move(bootstrap));
}

void AgentCore::RefuseLaunch(const AttemptId& id, const std::vector<v1::Problem>& problems) {
  for (const v1::Problem& problem : problems) {
    Notice(AgentObserver::Severity::kWarning,
           fmt::format("not launched {} check={} reason=\"{}\"", Describe(id), problem.check(),
                       problem.message()));
  }
  TellDeed(Deed::Kind::kRefuseLaunch, id, state_.attempts.at(id).assignment().launch().user(),
           fmt::format("{}: {}", problems.front().check(), problems.front().message()));
  JournalFactsOf(FactsOfRefusal(state_.attempts.at(id), problems, executor_.clock().WallNow()));
}

void AgentCore::RefuseLaunch(const AttemptId& id, const std::string& check,
                             const std::string& reason) {
  std::vector<v1::Problem> problems(1);
  problems.front().set_check(check);
  problems.front().set_message(reason);
  RefuseLaunch(id, problems);
}

void AgentCore::TellDeed(Deed::Kind kind, const AttemptId& id, std::string user,
                         std::string detail) {
  const v1::LaunchSpec& launch = state_.attempts.at(id).assignment().launch();
  Deed deed{.kind = kind,
            .attempt = id,
            .submitter = launch.submitter(),
            .user = std::move(user),
            .argv = {launch.argv().begin(), launch.argv().end()},
            .directory = launch.working_directory(),
            .detail = std::move(detail)};
  for (const v1::RankSpec& rank : launch.ranks()) deed.ranks.push_back(rank.rank());
  observer_.OnDeed(deed);
}

}  // namespace muster
