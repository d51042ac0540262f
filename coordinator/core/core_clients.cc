// The part of the core that answers clients. Every answer is given in a turn of its own, once what
// it says is stored.
#include <absl/strings/numbers.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/signal_names.h"
#include "coordinator/core/card_use.h"
#include "coordinator/core/core_impl.h"
#include "coordinator/core/proto_time.h"
#include "coordinator/core/spec_check.h"
#include "coordinator/core/user_limits.h"
#include "coordinator/plan/plan_job.h"

namespace muster {
namespace {

constexpr int kHighestSignal = 64;
constexpr int kDefaultPageSize = 100;
constexpr int kMaxPageSize = 1000;
constexpr size_t kMaxRequestIdBytes = 255;
// Above this a plan leaves environments out: they would not fit into a message.
constexpr size_t kMaxPlanBytes = size_t{2} << 20;

absl::Status NoSuchJob(const std::string& id) {
  return absl::NotFoundError(fmt::format("there is no job {}", id));
}

bool IsFor(const JobEntry& entry, const Caller& caller) {
  return caller.admin || (!caller.user.empty() && entry.record.submitter == caller.user);
}

}  // namespace

bool CoordinatorCore::Impl::MaySee(const JobId& job, const Caller& caller) const {
  const JobEntry* entry = jobs_.Find(job);
  return entry != nullptr && IsFor(*entry, caller);
}

JobEntry* CoordinatorCore::Impl::FindFor(const Caller& caller, const std::string& job) {
  JobEntry* entry = jobs_.Find(JobId(job));
  return entry != nullptr && IsFor(*entry, caller) ? entry : nullptr;
}

absl::StatusOr<v1::Job> CoordinatorCore::Impl::View(const JobEntry& entry) const {
  if (!entry.stored()) return CannotStore();
  return ViewJob(entry, nodes_, JobViewScope{});
}

absl::Status CoordinatorCore::Impl::CannotStore() const {
  return Annotate(absl::ResourceExhaustedError(store_failure_.message()),
                  "the coordinator cannot store jobs at present");
}

void CoordinatorCore::Impl::SubmitJob(v1::SubmitJobRequest request, Caller caller,
                                      Reply<v1::Job> done) {
  const auto refuse = [this](Reply<v1::Job> reply, absl::Status status) {
    Post([reply = std::move(reply), status = std::move(status)] { reply(status); });
  };
  if (store_failures_ > 0) {
    return refuse(std::move(done), CannotStore());
  }
  if (request.request_id().size() > kMaxRequestIdBytes) {
    return refuse(std::move(done), absl::InvalidArgumentError(fmt::format(
                                       "request_id: at most {} bytes", kMaxRequestIdBytes)));
  }
  Enqueue([this, request = std::move(request), caller = std::move(caller),
           done = std::move(done)]() mutable {
    JobEntry* entry = jobs_.FindByRequest(caller.user, request.request_id());
    if (entry == nullptr) {
      absl::Status fit = CheckSpec(request.spec(), caller);
      if (fit.ok() && !caller.admin) {
        fit = CheckUserLimits(options_.user_limits, caller.user, jobs_.UsageOf(caller.user),
                              RanksAsked(request.spec()));
      }
      if (!fit.ok()) {
        afterwards_.push_back({[done = std::move(done), fit] { done(fit); }, true});
        return;
      }
      entry = &jobs_.Add(NewJobId());
      submitted_.push_back(entry->id);
      internal::JobEvent event;
      internal::JobSubmitted& submitted = *event.mutable_submitted();
      submitted.set_request_id(request.request_id());
      submitted.set_submitter(caller.user);
      for (std::string& warning : SpecWarnings(request.spec(), nodes_.terms().heartbeat_interval)) {
        submitted.add_warnings(std::move(warning));
      }
      *submitted.mutable_spec() = std::move(*request.mutable_spec());
      // From now on it does not matter who asks.
      if (submitted.spec().user().empty()) submitted.mutable_spec()->set_user(caller.user);
      Record(*entry, std::move(event));
    }
    afterwards_.push_back({[this, id = entry->id, done = std::move(done)] {
                             const JobEntry* job = jobs_.Find(id);
                             if (job != nullptr) return done(View(*job));
                             done(CannotStore());
                           },
                           true});
  });
}

void CoordinatorCore::Impl::PlanJob(v1::PlanJobRequest request, Caller caller,
                                    Reply<v1::Plan> done) {
  if (request.spec().user().empty()) request.mutable_spec()->set_user(caller.user);
  Answer([this, request = std::move(request), caller = std::move(caller), done = std::move(done)] {
    const v1::JobSpec& spec = request.spec();
    const absl::Status fit = CheckSpec(spec, caller);
    if (!fit.ok()) return done(fit);
    const NodeInventory& inventory = nodes_.Alive();
    const HostMatches matches = MatchHosts(spec.hosts(), inventory.nodes);
    if (!matches.errors.empty()) {
      return done(
          absl::FailedPreconditionError(fmt::format("{}", fmt::join(matches.errors, "\n"))));
    }
    std::vector<NodeSlots> slots(spec.hosts_size());
    for (int i = 0; i < spec.hosts_size(); ++i) {
      if (matches.node[i].has_value()) {
        const NodeView& node = inventory.nodes[*matches.node[i]];
        slots[i] = SlotsOf(node, spec.devices());
        if (!slots[i].are_modules) continue;
        // A plan for later: what is in use now is only to be avoided.
        slots[i].use = UseOfCards(*nodes_.Find(node.id),
                                  inventory.identities[*matches.node[i]].boot_id, jobs_);
        slots[i].use.doubtful.merge(slots[i].use.taken);
        slots[i].use.taken.clear();
      }
    }
    size_t env_bytes = 0;
    for (const v1::EnvAssignment& assignment : spec.env()) env_bytes += assignment.ByteSizeLong();
    const bool full = env_bytes * static_cast<size_t>(spec.hosts_size()) < kMaxPlanBytes;
    absl::StatusOr<v1::Plan> plan =
        muster::PlanJob(spec, slots, full ? PlanDetail::kFull : PlanDetail::kLayout);
    if (plan.ok()) {
      for (size_t index : matches.missing) {
        const v1::HostEntry& host = spec.hosts(static_cast<int>(index));
        plan->add_warnings(fmt::format("no node serves {} at present", host.host()));
      }
      for (std::string& warning : SpecWarnings(spec, nodes_.terms().heartbeat_interval))
        plan->add_warnings(std::move(warning));
    }
    done(std::move(plan));
  });
}

void CoordinatorCore::Impl::GetJob(v1::GetJobRequest request, Caller caller, Reply<v1::Job> done) {
  Answer([this, id = request.job_id(), caller = std::move(caller), done = std::move(done)] {
    const JobEntry* entry = FindFor(caller, id);
    if (entry == nullptr) return done(NoSuchJob(id));
    done(View(*entry));
  });
}

void CoordinatorCore::Impl::ListJobs(v1::ListJobsRequest request, Caller caller,
                                     Reply<v1::ListJobsResponse> done) {
  Answer([this, request = std::move(request), caller = std::move(caller), done = std::move(done)] {
    const int size = request.page_size() <= 0 ? kDefaultPageSize
                                              : std::min<int>(request.page_size(), kMaxPageSize);
    auto it = jobs_.by_sequence().rbegin();
    if (!request.page_token().empty()) {
      uint64_t last = 0;
      if (!absl::SimpleAtoi(request.page_token(), &last)) {
        return done(absl::InvalidArgumentError("page_token: not one that was given out"));
      }
      it = std::make_reverse_iterator(jobs_.by_sequence().lower_bound(last));
    }
    v1::ListJobsResponse response;
    uint64_t last = 0;
    for (; it != jobs_.by_sequence().rend() && response.jobs_size() < size; ++it) {
      last = it->first;
      if (!IsFor(*it->second, caller)) continue;
      if (!it->second->stored()) return done(CannotStore());
      *response.add_jobs() = ViewJob(*it->second, nodes_, {.nodes = true, .ranks = false});
    }
    if (it != jobs_.by_sequence().rend()) response.set_next_page_token(std::to_string(last));
    done(std::move(response));
  });
}

void CoordinatorCore::Impl::CancelJob(v1::CancelJobRequest request, Caller caller,
                                      Reply<v1::Job> done) {
  Enqueue([this, request = std::move(request), caller = std::move(caller),
           done = std::move(done)]() mutable {
    JobEntry* entry = FindFor(caller, request.job_id());
    absl::Status fit;
    if (entry == nullptr) {
      fit = NoSuchJob(request.job_id());
    } else if (request.signal() < 0 || request.signal() > kHighestSignal) {
      fit = absl::InvalidArgumentError(fmt::format("signal: no signal {}", request.signal()));
    } else if (request.has_grace() &&
               (request.grace().seconds() < 0 || request.grace().nanos() < 0)) {
      fit = absl::InvalidArgumentError("grace: must not be negative");
    }
    if (!fit.ok()) {
      afterwards_.push_back({[done = std::move(done), fit] { done(fit); }, true});
      return;
    }
    if (!entry->record.terminal()) {
      internal::JobEvent event;
      internal::CancelRequested& cancel = *event.mutable_cancel_requested();
      cancel.set_signal(request.signal());
      cancel.set_reason(request.reason());
      if (request.has_grace()) *cancel.mutable_grace() = request.grace();
      Record(*entry, std::move(event));
    }
    afterwards_.push_back({[this, id = entry->id, done = std::move(done)] {
                             const JobEntry* job = jobs_.Find(id);
                             if (job == nullptr) return done(NoSuchJob(id.value()));
                             done(View(*job));
                           },
                           false});
  });
}

void CoordinatorCore::Impl::SignalJob(v1::SignalJobRequest request, Caller caller,
                                      Reply<v1::SignalJobResponse> done) {
  Answer([this, request = std::move(request), caller = std::move(caller), done = std::move(done)] {
    const JobEntry* entry = FindFor(caller, request.job_id());
    if (entry == nullptr) return done(NoSuchJob(request.job_id()));
    if (request.signal() < 1 || request.signal() > kHighestSignal) {
      return done(
          absl::InvalidArgumentError(fmt::format("signal: no signal {}", request.signal())));
    }
    const AttemptRecord* attempt = entry->record.live_attempt();
    std::map<uint32_t, std::vector<uint32_t>> ranks_of_node;
    if (attempt != nullptr) {
      for (uint32_t rank : request.ranks()) {
        if (rank >= attempt->ranks.size()) {
          return done(absl::InvalidArgumentError(fmt::format(
              "ranks: the job has ranks 0 to {}, not {}", attempt->ranks.size() - 1, rank)));
        }
      }
      const auto add = [&](uint32_t rank) {
        if (attempt->ranks[rank].state == v1::JobRank::RUNNING) {
          ranks_of_node[attempt->ranks[rank].node_index].push_back(rank);
        }
      };
      for (uint32_t rank : request.ranks()) add(rank);
      for (uint32_t rank = 0; request.ranks().empty() && rank < attempt->ranks.size(); ++rank) {
        add(rank);
      }
    }
    if (ranks_of_node.empty()) {
      return done(absl::FailedPreconditionError(
          fmt::format("no rank of job {} that was asked for runs", request.job_id())));
    }
    v1::SignalJobResponse response;
    for (const auto& [index, ranks] : ranks_of_node) {
      AgentSession* session = sessions_.LiveOf(attempt->nodes[index].node);
      if (session == nullptr || !session->open()) continue;
      v1::SignalRanks signal;
      signal.mutable_key()->set_job_id(request.job_id());
      signal.mutable_key()->set_attempt(attempt->number);
      signal.set_signal(request.signal());
      if (!request.ranks().empty()) signal.mutable_ranks()->Add(ranks.begin(), ranks.end());
      session->Signal(std::move(signal));
      response.set_nodes(response.nodes() + 1);
    }
    if (response.nodes() == 0) {
      return done(absl::UnavailableError(
          fmt::format("none of the nodes of job {} is in contact at present", request.job_id())));
    }
    Note(NoteLevel::kInfo, fmt::format("signal sent job={} signal={} nodes={}", request.job_id(),
                                       SignalName(request.signal()), response.nodes()));
    done(std::move(response));
  });
}

void CoordinatorCore::Impl::ListNodes(v1::ListNodesRequest, Caller caller,
                                      Reply<v1::ListNodesResponse> done) {
  Answer([this, caller = std::move(caller), done = std::move(done)] {
    v1::ListNodesResponse response;
    const TimePoint now = executor_.clock().Now();
    for (const auto& [id, node] : nodes_.nodes()) {
      v1::Node& view = *response.add_nodes();
      view = ViewNode(node, nodes_, jobs_, now);
      const auto jobs = std::exchange(*view.mutable_job_ids(), {});
      for (const std::string& job : jobs) {
        if (MaySee(JobId(job), caller)) view.add_job_ids(job);
      }
    }
    done(std::move(response));
  });
}

absl::StatusOr<WatchHandle> CoordinatorCore::Impl::WatchJob(const JobId& job, const Caller& caller,
                                                            JobWatcher* watcher) {
  JobEntry* entry = FindFor(caller, job.value());
  if (entry == nullptr) return NoSuchJob(job.value());
  const WatchHandle handle = watches_.Add(*entry, watcher);
  // Told in a turn of its own: never from inside this call, and only what is stored.
  Enqueue([this, job] {
    JobEntry* found = jobs_.Find(job);
    if (found != nullptr) Touch(*found);
  });
  return handle;
}

}  // namespace muster
