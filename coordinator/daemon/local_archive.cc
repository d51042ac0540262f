#include "coordinator/daemon/local_archive.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "common/base/annotate.h"
#include "common/log/log.h"
#include "coordinator/core/job_outcome.h"
#include "coordinator/daemon/coordinator.h"
#include "coordinator/daemon/local_output.h"
#include "coordinator/store/directory_lock.h"
#include "coordinator/store/sqlite_store.h"

namespace muster {
namespace {

// Nobody will come back, and nothing is forgotten.
CoordinatorOptions ArchiveOptions() {
  CoordinatorOptions options;
  options.lease_ttl = std::chrono::milliseconds(1);
  options.max_ended_jobs = ~size_t{0};
  return options;
}

// A job without an end was cut off together with its coordinator. Gives it one: failed, and nobody
// can tell when, or what became of its ranks.
void EndCutOffJobs(StoredState& state) {
  std::map<JobId, StoredEvent> last;
  for (const StoredEvent& event : state.events) last[event.job] = event;
  for (auto& [job, event] : last) {
    if (event.event.has_ended()) continue;
    constexpr char kReason[] =
        "the command that ran it was killed, and the coordinator with it; what is shown is what it "
        "knew last";
    StoredEvent stop{job, event.index + 1, {}};
    *stop.event.mutable_time() = event.event.time();
    stop.event.mutable_stop_ordered()->set_cause(v1::Job::NODE_LOST);
    stop.event.mutable_stop_ordered()->set_reason(kReason);
    // Without a time.
    StoredEvent end{job, event.index + 2, {}};
    internal::Outcome& outcome = *end.event.mutable_ended()->mutable_outcome();
    outcome.set_state(v1::Job::FAILED);
    outcome.set_cause(v1::Job::NODE_LOST);
    outcome.set_exit_code(kExitNodeLost);
    outcome.set_reason(kReason);
    state.events.push_back(std::move(stop));
    state.events.push_back(std::move(end));
  }
}

}  // namespace

struct LocalArchive::Parts {
  // Keeps the folder from being deleted.
  std::optional<DirectoryLock> lock;
  std::string missing_output;
  std::unique_ptr<Coordinator> coordinator;
};

absl::StatusOr<std::unique_ptr<LocalArchive>> LocalArchive::Open(const std::string& folder) {
  auto parts = std::make_unique<Parts>();
  absl::StatusOr<DirectoryLock> lock = DirectoryLock::AcquireShared(folder);
  if (!lock.ok()) return lock.status();
  parts->lock.emplace(*std::move(lock));
  if (const absl::Status recovered = RecoverLocalOutput(folder); !recovered.ok()) {
    spdlog::warn("output not recovered folder={} error={}", LogQuoted(folder),
                 LogQuoted(MessageOf(recovered)));
    parts->missing_output =
        fmt::format("there is more output in {}/nodes ({})", folder, MessageOf(recovered));
  }
  absl::StatusOr<StoredState> state = SqliteStore::Peek(folder + "/store.db");
  if (!state.ok()) return state.status();
  EndCutOffJobs(*state);

  CoordinatorConfig config;
  config.directory = folder;
  config.durability = CoordinatorConfig::Durability::kBestEffort;
  config.archive = *std::move(state);
  config.core = ArchiveOptions();
  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator = Coordinator::Start(std::move(config));
  if (!coordinator.ok()) return coordinator.status();
  parts->coordinator = *std::move(coordinator);
  return std::unique_ptr<LocalArchive>(new LocalArchive(std::move(parts)));
}

LocalArchive::LocalArchive(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
LocalArchive::~LocalArchive() = default;

const std::string& LocalArchive::missing_output() const { return parts_->missing_output; }

std::shared_ptr<grpc::Channel> LocalArchive::channel(ChannelUse use) {
  return parts_->coordinator->InProcessChannel(use);
}

}  // namespace muster
