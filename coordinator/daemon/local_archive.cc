#include "coordinator/daemon/local_archive.h"

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <optional>
#include <set>
#include <utility>

#include "coordinator/daemon/coordinator.h"
#include "coordinator/store/directory_lock.h"
#include "coordinator/store/sqlite_store.h"

namespace muster {
namespace {

// Nobody will come back: a job that was cut off is over at once.
CoordinatorOptions ArchiveOptions() {
  CoordinatorOptions options;
  options.lease_ttl = std::chrono::milliseconds(1);
  options.prepare_failure_window = std::chrono::milliseconds(1);
  options.stop_confirmation_limit = std::chrono::milliseconds(1);
  // As many as there are.
  options.max_ended_jobs = ~size_t{0};
  return options;
}

// True when all `jobs` have ended, asked on the loop.
bool AllEnded(Coordinator& coordinator, const std::set<JobId>& jobs) {
  std::promise<bool> answer;
  coordinator.loop().Post([&] {
    bool all = true;
    for (const JobId& job : jobs) all = all && coordinator.core().HasEnded(job);
    answer.set_value(all);
  });
  return answer.get_future().get();
}

}  // namespace

struct LocalArchive::Parts {
  // Keeps the folder from being deleted.
  std::optional<DirectoryLock> lock;
  std::unique_ptr<Coordinator> coordinator;
};

absl::StatusOr<std::unique_ptr<LocalArchive>> LocalArchive::Open(const std::string& folder) {
  auto parts = std::make_unique<Parts>();
  absl::StatusOr<DirectoryLock> lock = DirectoryLock::AcquireShared(folder);
  if (!lock.ok()) return lock.status();
  parts->lock.emplace(*std::move(lock));
  absl::StatusOr<StoredState> state = SqliteStore::Peek(folder + "/store.db");
  if (!state.ok()) return state.status();
  std::set<JobId> jobs;
  for (const StoredEvent& event : state->events) jobs.insert(event.job);

  CoordinatorConfig config;
  config.directory = folder;
  config.durability = CoordinatorConfig::Durability::kBestEffort;
  config.archive = *std::move(state);
  config.core = ArchiveOptions();
  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator = Coordinator::Start(std::move(config));
  if (!coordinator.ok()) return coordinator.status();
  parts->coordinator = *std::move(coordinator);
  // A job that was cut off ends within a few turns of the loop; who asks now shall see that.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (!AllEnded(*parts->coordinator, jobs) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return std::unique_ptr<LocalArchive>(new LocalArchive(std::move(parts)));
}

LocalArchive::LocalArchive(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
LocalArchive::~LocalArchive() = default;

std::shared_ptr<grpc::Channel> LocalArchive::channel(ChannelUse use) {
  return parts_->coordinator->InProcessChannel(use);
}

}  // namespace muster
