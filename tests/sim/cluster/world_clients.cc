// The clients of the simulated cluster: they ask until they are answered, as real ones do.
#include <fmt/format.h>

#include "tests/sim/cluster/world.h"

namespace muster::testing {

using std::chrono::milliseconds;

v1::JobSpec World::Spec(const std::string& script, int nodes, int slots) {
  v1::JobSpec spec;
  for (int i = 0; i < nodes; ++i) {
    v1::HostEntry& host = *spec.add_hosts();
    host.set_host(nodes_[static_cast<size_t>(i)]->id.value());
    host.set_slot_count(static_cast<uint32_t>(slots));
    host.set_source(fmt::format("hostfile:{}", i + 1));
  }
  spec.mutable_program()->set_kind(v1::Program::COMMAND);
  spec.mutable_program()->set_target("sim");
  spec.mutable_program()->add_args(script);
  spec.set_working_directory("/work");
  spec.mutable_grace()->set_seconds(1);
  spec.mutable_start_timeout()->set_seconds(60);
  return spec;
}

ClientJob& World::Submit(v1::JobSpec spec) {
  ClientJob& job = *jobs_.emplace_back(std::make_unique<ClientJob>());
  job.request.set_request_id(fmt::format("request-{}", jobs_.size()));
  *job.request.mutable_spec() = std::move(spec);
  SubmitAgain(job);
  return job;
}

void World::SubmitAgain(ClientJob& job) {
  // Also after an answer came: a repeated request must find the same job.
  if (coordinator_ != nullptr && coordinator_->alive()) {
    coordinator_->core().SubmitJob(job.request, {}, [this, &job](absl::StatusOr<v1::Job> answer) {
      if (!answer.ok()) {
        const auto code = answer.status().code();
        if (code != absl::StatusCode::kUnavailable &&
            code != absl::StatusCode::kResourceExhausted) {
          truth_.Violation("a job was refused: " + answer.status().ToString());
        }
        return;
      }
      const JobId id(answer->job_id());
      if (!job.id.empty() && job.id != id) {
        truth_.Violation(
            fmt::format("one request made two jobs, {} and {}", job.id.value(), id.value()));
      }
      job.id = id;
    });
  }
  queue_.Add(random_.Between(milliseconds(50), milliseconds(1500)), [this, &job] {
    if (job.id.empty() || random_.Chance(0.3)) SubmitAgain(job);
  });
}

void World::Cancel(ClientJob& job, Duration grace) { CancelAgain(job, grace); }

void World::CancelAgain(ClientJob& job, Duration grace) {
  const auto done = std::make_shared<bool>(false);
  if (!job.id.empty() && coordinator_ != nullptr && coordinator_->alive()) {
    v1::CancelJobRequest request;
    request.set_job_id(job.id.value());
    request.set_signal(2);
    request.mutable_grace()->set_nanos(
        static_cast<int32_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(grace).count()));
    coordinator_->core().CancelJob(request, {"", true},
                                   [this, &job, done](absl::StatusOr<v1::Job> answer) {
                                     if (!answer.ok()) return;
                                     *done = true;
                                     CheckView(job, *answer, true);
                                   });
  }
  queue_.Add(milliseconds(1000), [this, &job, grace, done] {
    if (!*done) CancelAgain(job, grace);
  });
}

void World::Signal(ClientJob& job, int signal) {
  if (job.id.empty() || coordinator_ == nullptr || !coordinator_->alive()) return;
  v1::SignalJobRequest request;
  request.set_job_id(job.id.value());
  request.set_signal(signal);
  coordinator_->core().SignalJob(request, {"", true},
                                 [](const absl::StatusOr<v1::SignalJobResponse>&) {});
}

void World::Refresh(ClientJob& job) {
  if (job.id.empty() || coordinator_ == nullptr || !coordinator_->alive()) return;
  v1::GetJobRequest request;
  request.set_job_id(job.id.value());
  coordinator_->core().GetJob(request, {"", true}, [this, &job](absl::StatusOr<v1::Job> answer) {
    if (!answer.ok()) {
      // What cannot be stored is not told; but a job that was accepted is never lost.
      if (answer.status().code() == absl::StatusCode::kNotFound) {
        truth_.Violation(fmt::format("job {} is gone", job.id.value()));
      }
      return;
    }
    CheckView(job, *answer, true);
  });
}

// Merges updates as a client does, and compares the result with the truth at the end.
class World::Watcher final : public JobWatcher {
 public:
  Watcher(World& world, ClientJob& job) : world_(world), job_(job) { Again(); }

  void OnUpdateReady(WatchHandle watch) override {
    if (watch != watch_) {
      world_.truth_.Violation("an update of a watch that ended");
      return;
    }
    const std::optional<JobUpdate> update = world_.coordinator_->core().TakeUpdate(watch);
    if (!update) return;
    world_.CheckView(job_, update->job, first_);
    first_ = false;
    if (update->job.revision() < revision_) {
      world_.truth_.Violation(fmt::format("job {}: an older update", job_.id.value()));
    }
    revision_ = update->job.revision();
    for (const v1::JobRank& rank : update->job.ranks()) ranks_[rank.rank()] = rank.state();
    if (update->last != (update->job.state() >= v1::Job::SUCCEEDED)) {
      world_.truth_.Violation(fmt::format("job {}: the watch ends in state {}", job_.id.value(),
                                          v1::Job::State_Name(update->job.state())));
    }
    if (!update->last) return;
    job_.watch_ended = true;
    if (update->job.state() != v1::Job::SUCCEEDED) return;
    for (const auto& [rank, state] : ranks_) {
      if (state == v1::JobRank::EXITED) continue;
      world_.truth_.Violation(
          fmt::format("job {}: the watch missed the end of rank {}", job_.id.value(), rank));
    }
  }

 private:
  void Again() {
    if (job_.watch_ended) return;
    SimCoordinator* const now = world_.coordinator_.get();
    const bool there = now != nullptr && now->alive();
    if (!job_.id.empty() && there && now->core().epoch() != epoch_) {
      const absl::StatusOr<WatchHandle> watch = now->core().WatchJob(job_.id, {"", true}, this);
      if (watch.ok()) {
        watch_ = *watch;
        epoch_ = now->core().epoch();
        first_ = true;
        ranks_.clear();
      }
    }
    world_.queue_.Add(milliseconds(300), [this] { Again(); });
  }

  World& world_;
  ClientJob& job_;
  WatchHandle watch_ = WatchHandle::kNone;
  uint64_t epoch_ = 0;
  bool first_ = true;
  uint64_t revision_ = 0;
  std::map<uint32_t, v1::JobRank::State> ranks_;
};

void World::Watch(ClientJob& job) { watchers_.push_back(std::make_shared<Watcher>(*this, job)); }

}  // namespace muster::testing
