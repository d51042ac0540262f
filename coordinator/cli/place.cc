#include "coordinator/cli/place.h"

#include <fmt/format.h>
#include <poll.h>

#include <optional>

#include "common/base/annotate.h"
#include "coordinator/store/directory_lock.h"

namespace muster {
namespace {

// A daemon that is restarted is back within this time.
constexpr std::chrono::seconds kReconnect(30);

// How long the coordinator of a local job takes to end, at most.
constexpr std::chrono::seconds kEndLimit(15);

// True once the process that has the local job has ended.
bool AwaitEnd(const LocalJob& job) {
  const auto deadline = std::chrono::steady_clock::now() + kEndLimit;
  while (!DirectoryLock::IsFree(job.folder)) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    // paces: a file lock cannot be waited for with a limit.
    ::poll(nullptr, 0, 10);
  }
  return true;
}

}  // namespace

absl::StatusOr<Place> FindCoordinator(const std::string& server) {
  absl::StatusOr<std::optional<ServerAddress>> address = FindServer(server);
  if (!address.ok()) return address.status();
  if (!address->has_value()) return absl::UnavailableError(NoServerText(false));
  absl::StatusOr<std::unique_ptr<Client>> client = Connect((*address)->target);
  if (!client.ok()) return Annotate(client.status(), (*address)->origin);
  Place place;
  place.client = *std::move(client);
  place.reconnect = kReconnect;
  return place;
}

absl::StatusOr<Place> OpenLocalJob(const LocalJob& job) {
  Place place;
  if (!job.address.empty()) {
    absl::StatusOr<std::unique_ptr<Client>> client = Connect(job.address);
    if (!client.ok()) return client.status();
    // One that takes no connections any more is about to end, and its folder then has everything.
    if ((*client)->IsReachable() || !AwaitEnd(job)) {
      place.client = *std::move(client);
      return place;
    }
  }
  absl::StatusOr<std::unique_ptr<LocalArchive>> archive = LocalArchive::Open(job.folder);
  if (!archive.ok()) return Annotate(archive.status(), fmt::format("job {}", job.job_id));
  place.archive = *std::move(archive);
  place.client =
      std::make_unique<Client>(place.archive->channel(), place.archive->channel(ChannelUse::kLogs));
  return place;
}

absl::StatusOr<Place> FindJobPlace(const std::string& server, const std::string& job_id) {
  if (server.empty()) {
    if (const std::optional<LocalJob> job = FindLocalJob(job_id)) return OpenLocalJob(*job);
  }
  absl::StatusOr<Place> place = FindCoordinator(server);
  if (absl::IsUnavailable(place.status())) {
    return absl::UnavailableError(fmt::format("no local job {} in {}, and {}", job_id,
                                              LocalJobsDirectory(), MessageOf(place.status())));
  }
  return place;
}

absl::StatusOr<Place> FindLiveJob(const std::string& server, const std::string& job_id) {
  absl::StatusOr<Place> place = FindJobPlace(server, job_id);
  if (place.ok() && place->archive != nullptr) {
    return absl::FailedPreconditionError(fmt::format(
        "job {} has ended; coordinator status {} shows how, coordinator logs {} what it printed",
        job_id, job_id, job_id));
  }
  return place;
}

}  // namespace muster
