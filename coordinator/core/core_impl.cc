#include "coordinator/core/core_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/annotate.h"
#include "coordinator/core/card_use.h"
#include "coordinator/core/job_state.h"
#include "coordinator/core/job_text.h"
#include "coordinator/core/job_times.h"
#include "coordinator/core/proto_time.h"
#include "coordinator/core/scheduler.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

// Retries of a failed Append.
constexpr Duration kRetryMin = milliseconds(100);
constexpr Duration kRetryMax = std::chrono::seconds(5);
// A waiting job that cannot start yet is compared with the nodes no more often than this.
constexpr Duration kPlacementInterval = milliseconds(200);
// Decisions that follow one another in a turn; more is a mistake.
constexpr int kMaxRounds = 16;

bool HasFailure(const JobRecord& job) {
  return !job.attempts.empty() && job.attempts.back().failure.has_value();
}

}  // namespace

CoordinatorCore::Impl::Impl(CoordinatorOptions options, Executor& executor, Store& store,
                            RandomSource random)
    : options_(std::move(options)),
      executor_(executor),
      store_(store),
      random_(std::move(random)),
      limits_{.prepare_failure_window = options_.prepare_failure_window,
              .stop_confirmation_limit = options_.stop_confirmation_limit,
              .probe_rendezvous = options_.probe_rendezvous},
      nodes_({options_.heartbeat_interval, options_.lease_ttl}, options_.max_heartbeats_per_second),
      watches_(nodes_),
      checks_(
          executor,
          [this](const NodeId& node, v1::RunCheck check) {
            return SendCheck(node, std::move(check));
          },
          [this] { return random_(); }) {}

CoordinatorCore::Impl::~Impl() = default;

absl::Status CoordinatorCore::Impl::Start() {
  absl::StatusOr<StoredState> state = store_.Load();
  if (!state.ok()) return Annotate(state.status(), "cannot load the state of the coordinator");
  epoch_ = state->epoch;
  jobs_.set_epoch(epoch_);
  const TimePoint now = executor_.clock().Now();
  const WallTime wall_now = executor_.clock().WallNow();
  for (internal::NodeRecord& node : state->nodes) nodes_.Restore(std::move(node), now);
  for (const StoredEvent& stored : state->events) {
    JobEntry* entry = jobs_.Find(stored.job);
    if (entry == nullptr) entry = &jobs_.Add(stored.job);
    if (stored.index != entry->events + 1 ||
        stored.event.body_case() == internal::JobEvent::BODY_NOT_SET ||
        (stored.index == 1) != stored.event.has_submitted()) {
      return absl::DataLossError(
          fmt::format("event {} of job {} cannot be understood (damaged, or written by a newer "
                      "version)",
                      stored.index, stored.job.value()));
    }
    entry->stored_events = ++entry->events;
    entry->record = Apply(std::move(entry->record), stored.event);
    jobs_.Update(*entry);
  }
  size_t live = 0;
  for (const auto& [sequence, entry] : jobs_.by_sequence()) {
    if (entry->record.terminal()) continue;
    ++live;
    // A node that the store does not know would never be missed.
    if (const AttemptRecord* attempt = entry->record.live_attempt()) {
      for (const NodeProgress& node : attempt->nodes) {
        if (nodes_.Find(node.node) != nullptr) continue;
        internal::NodeRecord record;
        record.set_node_id(node.node.value());
        record.set_boot_id(node.boot_id);
        record.set_journal_id(node.journal_id);
        nodes_.Restore(std::move(record), now);
      }
    }
    entry->times = TimesAfterLoad(entry->record, now, wall_now, options_.lease_ttl);
    Touch(*entry);
  }
  // What became known of a node and was not drawn the consequences of before the crash.
  Enqueue([this] {
    for (const auto& [id, node] : nodes_.nodes()) CheckAttempts(node);
  });
  Note(NoteLevel::kInfo,
       fmt::format("coordinator started epoch={} jobs={} live_jobs={} nodes={}", epoch_,
                   jobs_.by_sequence().size(), live, nodes_.nodes().size()));
  Tick();
  return absl::OkStatus();
}

void CoordinatorCore::Impl::Enqueue(Task task) {
  inbox_.push_back(std::move(task));
  ScheduleTurn();
}

void CoordinatorCore::Impl::Answer(Task answer) {
  if (store_failures_ > 0) return Post(std::move(answer));
  Enqueue([this, answer = std::move(answer)]() mutable {
    afterwards_.push_back({std::move(answer), true});
  });
}

void CoordinatorCore::Impl::ScheduleTurn() {
  if (turn_posted_ || append_in_flight_) return;
  turn_posted_ = true;
  Post([this] { Turn(); });
}

void CoordinatorCore::Impl::Turn() {
  turn_posted_ = false;
  if (append_in_flight_) return;
  std::deque<Task> tasks;
  tasks.swap(inbox_);
  for (Task& task : tasks) task();
  DecideAll();
  ForgetOldJobs();
  for (const NodeId& id : dirty_nodes_) batch_.nodes.push_back(nodes_.Find(id)->record);
  dirty_nodes_.clear();
  if (batch_.empty()) {
    Publish();
  } else {
    AppendBatch();
  }
}

void CoordinatorCore::Impl::DecideAll() {
  if (placed_version_ != nodes_.version()) {
    placed_version_ = nodes_.version();
    for (JobEntry* entry : jobs_.waiting()) Touch(*entry);
  }
  // Deciding may touch more jobs.
  for (size_t i = 0; i < touched_.size(); ++i) DecideFor(*touched_[i]);
}

void CoordinatorCore::Impl::DecideFor(JobEntry& entry) {
  const TimePoint now = executor_.clock().Now();
  limits_.probe_limit = nodes_.terms().lease_ttl + options_.probe_margin;
  for (int round = 0; round < kMaxRounds; ++round) {
    const JobRecord& job = entry.record;
    std::optional<Placement> placement;
    std::optional<TimePoint> look_again;
    if (job.state == v1::Job::PENDING && !job.cancel.has_value()) {
      // With fewer nodes than hosts it cannot start, and only the text needs to be kept fresh.
      const bool enough = nodes_.alive_count() >= static_cast<size_t>(job.spec->hosts_size());
      const bool due = entry.wake.has_value() && *entry.wake <= now;
      if (enough || due || !entry.placed_at.has_value() ||
          now - *entry.placed_at >= kPlacementInterval) {
        placement.emplace();
        Place(entry, *placement);
        entry.placed_at = now;
      } else {
        look_again = *entry.placed_at + kPlacementInterval;
      }
    }
    const std::optional<ProbeView> probe = ProbeViewOf(job);
    Decision decision = Decide(job, entry.times, placement.has_value() ? &*placement : nullptr,
                               probe.has_value() ? &*probe : nullptr, limits_, now);
    if (decision.events.empty()) {
      std::optional<TimePoint> wake = decision.wake;
      if (look_again.has_value() && (!wake.has_value() || *look_again < *wake)) wake = look_again;
      jobs_.SetWake(entry, wake);
      return;
    }
    jobs_.SetWake(entry, std::nullopt);
    for (internal::JobEvent& event : decision.events) Record(entry, std::move(event));
  }
  Note(NoteLevel::kError, fmt::format("decisions without effect job={} state={}", entry.id.value(),
                                      v1::Job::State_Name(entry.record.state)));
}

void CoordinatorCore::Impl::GiveUpNode(const NodeId& node, std::string reason) {
  Enqueue([this, node, reason = std::move(reason)] {
    given_up_[node] = reason;
    for (JobEntry* entry : jobs_.waiting()) {
      entry->placed_at.reset();
      Touch(*entry);
    }
  });
}

void CoordinatorCore::Impl::Place(JobEntry& entry, Placement& placement) {
  PlacementResult result = PlaceJob(entry.record, nodes_.Alive(),
                                    [this](const NodeId& node, const std::string& boot_id) {
                                      return UseOfCards(*nodes_.Find(node), boot_id, jobs_);
                                    });
  if (result.placement.planned.has_value()) {
    result.placement.missing = HeldByEnded(*result.placement.planned, jobs_);
    if (!result.placement.missing.empty()) {
      result.placement.planned.reset();
      result.placement.reason = fmt::format("waiting: {}", JoinNames(result.placement.missing, 8));
    }
  }
  if (result.placement.reason != entry.waiting_reason ||
      result.node_of_host != entry.node_of_host) {
    entry.waiting_reason = result.placement.reason;
    entry.node_of_host = std::move(result.node_of_host);
    ++entry.volatile_revision;
  }
  placement = std::move(result.placement);
  if (given_up_.empty() || !placement.error.empty()) return;
  for (size_t i = 0; i < entry.node_of_host.size(); ++i) {
    const v1::HostEntry& host = entry.record.spec->hosts(static_cast<int>(i));
    const auto gone = given_up_.find(NodeId(host.host()));
    if (gone == given_up_.end() || !entry.node_of_host[i].empty()) continue;
    placement.planned.reset();
    placement.error = fmt::format("{} cannot be used: {}", host.host(), OneLine(gone->second));
    return;
  }
}

void CoordinatorCore::Impl::AppendBatch() {
  for (JobEntry* entry : touched_) entry->in_flight = true;
  storing_ = std::move(batch_);
  batch_ = StoreBatch{};
  append_in_flight_ = true;
  store_.Append(storing_, [this, weak = std::weak_ptr<int>(alive_)](absl::Status status) {
    if (!weak.expired()) OnAppended(status);
  });
}

void CoordinatorCore::Impl::OnAppended(const absl::Status& status) {
  if (!status.ok()) return OnAppendFailed(status);
  if (store_failures_ > 0) {
    Note(NoteLevel::kWarn, fmt::format("store works again attempts={}", store_failures_ + 1));
  }
  store_failures_ = 0;
  store_failure_ = absl::OkStatus();
  append_in_flight_ = false;
  storing_ = StoreBatch{};
  submitted_.clear();
  Publish();
}

void CoordinatorCore::Impl::OnAppendFailed(const absl::Status& status) {
  if (store_failures_ == 0) {
    Note(NoteLevel::kError, fmt::format("store failed error=\"{}\"", MessageOf(status)));
  }
  ++store_failures_;
  store_failure_ = status;
  RetractSubmissions();
  // Nobody should wait for an answer that does not depend on the store.
  std::vector<Afterwards> waiting;
  waiting.swap(afterwards_);
  for (Afterwards& item : waiting) {
    if (item.even_if_failed) {
      Post(std::move(item.task));
    } else {
      afterwards_.push_back(std::move(item));
    }
  }
  if (storing_.empty()) {
    // Nothing is left to try with: the next batch will show whether the store works again.
    store_failures_ = 0;
    append_in_flight_ = false;
    return Publish();
  }
  const Duration delay =
      std::min(kRetryMin * (int64_t{1} << std::min(store_failures_ - 1, 10u)), kRetryMax);
  PostAfter(delay, [this] {
    store_.Append(storing_, [this, weak = std::weak_ptr<int>(alive_)](absl::Status again) {
      if (!weak.expired()) OnAppended(again);
    });
  });
}

void CoordinatorCore::Impl::RetractSubmissions() {
  for (const JobId& id : submitted_) {
    JobEntry* entry = jobs_.Find(id);
    if (entry == nullptr) continue;
    std::erase_if(storing_.events, [&](const StoredEvent& event) { return event.job == id; });
    std::erase(touched_, entry);
    jobs_.Remove(*entry);
  }
  submitted_.clear();
}

void CoordinatorCore::Impl::Publish() {
  std::vector<JobEntry*> touched;
  touched.swap(touched_);
  for (JobEntry* entry : touched) {
    entry->touched = false;
    entry->in_flight = false;
    entry->stored_events = entry->events;
  }
  // Before answers: what nodes are to do must not wait for them.
  for (JobEntry* entry : touched) PublishAssignments(*entry);
  std::vector<Afterwards> afterwards;
  afterwards.swap(afterwards_);
  for (Afterwards& item : afterwards) item.task();
  for (const NodeId& id : ack_nodes_) {
    AgentSession* session = sessions_.LiveOf(id);
    if (session != nullptr) session->AckEvents(nodes_.Find(id)->record.acked_event_seq());
  }
  ack_nodes_.clear();
  for (JobEntry* entry : touched) PublishJob(*entry);
  std::vector<JobId> forgotten;
  forgotten.swap(forgotten_);
  for (const JobId& id : forgotten) {
    if (forget_listener_) forget_listener_(id);
  }
  ArmWakeTimer();
  if (!inbox_.empty() || !touched_.empty()) ScheduleTurn();
}

void CoordinatorCore::Impl::PublishJob(JobEntry& entry) {
  watches_.Notify(entry);
  if (log_listener_) log_listener_(entry.id);
}

void CoordinatorCore::Impl::ForgetOldJobs() {
  size_t jobs = jobs_.ended().size();
  size_t ranks = jobs_.ended_ranks();
  std::vector<JobEntry*> old;
  for (const auto& [sequence, entry] : jobs_.ended()) {
    const bool too_much = jobs > options_.max_ended_jobs || ranks > options_.max_ended_ranks;
    if (!too_much || jobs <= 1) break;
    --jobs;
    ranks -= JobIndex::RanksOf(*entry);
    // Somebody is still looking, or it has just changed: another time.
    if (entry->watchers == 0 && !entry->touched) old.push_back(entry);
  }
  for (JobEntry* entry : old) {
    batch_.forgotten_jobs.push_back(entry->id);
    forgotten_.push_back(entry->id);
    ReleaseForgotten(*entry);
    jobs_.Remove(*entry);
  }
}

void CoordinatorCore::Impl::ArmWakeTimer() {
  const std::optional<TimePoint> wake = jobs_.NextWake();
  if (wake == wake_at_) return;
  executor_.Cancel(wake_timer_);
  wake_timer_ = 0;
  wake_at_ = wake;
  if (!wake.has_value()) return;
  const TimePoint now = executor_.clock().Now();
  wake_timer_ = PostAfter(*wake > now ? *wake - now : Duration::zero(), [this] {
    wake_timer_ = 0;
    wake_at_.reset();
    Enqueue([this] {
      for (JobEntry* entry : jobs_.Due(executor_.clock().Now())) Touch(*entry);
    });
  });
}

void CoordinatorCore::Impl::Record(JobEntry& entry, internal::JobEvent event) {
  *event.mutable_time() = ToTimestamp(executor_.clock().WallNow());
  const v1::Job::State before = entry.record.state;
  const bool had_failure = HasFailure(entry.record);
  entry.record = Apply(std::move(entry.record), event);
  UpdateTimes(entry.times, entry.record, executor_.clock().Now());
  jobs_.Update(entry);
  Touch(entry);
  // It may have been told that nothing is left where others wait for it.
  if (entry.record.live_attempt() == nullptr) {
    for (JobEntry* waiting : jobs_.waiting()) Touch(*waiting);
  }
  batch_.events.push_back({entry.id, ++entry.events, std::move(event)});
  if (!had_failure && HasFailure(entry.record)) {
    Note(NoteLevel::kInfo, fmt::format("first failure job={} attempt={} what=\"{}\"",
                                       entry.id.value(), entry.record.attempts.size(),
                                       entry.record.attempts.back().failure->failure.message()));
  }
  if (entry.record.state != before) NoteState(entry);
}

void CoordinatorCore::Impl::Touch(JobEntry& entry) {
  if (entry.touched) return;
  entry.touched = true;
  touched_.push_back(&entry);
}

void CoordinatorCore::Impl::Note(NoteLevel level, std::string_view line) const {
  if (options_.note) options_.note(level, line);
}

void CoordinatorCore::Impl::NoteState(const JobEntry& entry) const {
  if (!options_.note) return;
  const JobRecord& job = entry.record;
  std::string line = fmt::format("job moved job={} state={} attempt={}", entry.id.value(),
                                 v1::Job::State_Name(job.state), job.attempts.size());
  if (job.outcome.has_value()) {
    fmt::format_to(std::back_inserter(line), " cause={} exit_code={} reason=\"{}\"",
                   v1::Job::Cause_Name(job.outcome->cause()), job.outcome->exit_code(),
                   job.outcome->reason());
  }
  Note(NoteLevel::kInfo, line);
}

void CoordinatorCore::Impl::Post(Task task) {
  executor_.Post([weak = std::weak_ptr<int>(alive_), task = std::move(task)] {
    if (!weak.expired()) task();
  });
}

Executor::TimerId CoordinatorCore::Impl::PostAfter(Duration delay, Task task) {
  return executor_.PostAfter(delay, [weak = std::weak_ptr<int>(alive_), task = std::move(task)] {
    if (!weak.expired()) task();
  });
}

JobId CoordinatorCore::Impl::NewJobId() {
  // No letters that are taken for digits; a letter first, so that it is never taken for a number.
  constexpr std::string_view kDigits = "23456789abcdefghjkmnpqrstuvwxyz";
  constexpr size_t kFirstLetter = 8;
  size_t length = 6;
  for (int tries = 1;; ++tries) {
    uint64_t bits = random_();
    std::string id(1, kDigits[kFirstLetter + bits % (kDigits.size() - kFirstLetter)]);
    bits /= kDigits.size() - kFirstLetter;
    while (id.size() < length) {
      id += kDigits[bits % kDigits.size()];
      bits /= kDigits.size();
    }
    if (jobs_.Find(JobId(id)) == nullptr) return JobId(id);
    if (tries % 8 == 0 && length < 12) ++length;
  }
}

std::string CoordinatorCore::Impl::NewSessionId() {
  return fmt::format("{}-{:016x}{:016x}", epoch_, random_(), random_());
}

}  // namespace muster
