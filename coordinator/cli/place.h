// Finds the coordinator, or what a local job left behind, that a command about jobs talks to.
// Blocks; main thread.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <memory>
#include <string>

#include "coordinator/cli/client.h"
#include "coordinator/daemon/local_archive.h"
#include "coordinator/daemon/local_jobs.h"

namespace muster {

// Where a job is.
struct Place {
  // Set when only the folder of the job is left; `client` then reads that.
  std::unique_ptr<LocalArchive> archive;
  std::unique_ptr<Client> client;
  // How long a lost coordinator is asked again; a local one never comes back.
  std::chrono::milliseconds reconnect{0};
};

// The coordinator of --server, MUSTER_SERVER or the default socket. UNAVAILABLE with what to do
// when there is none.
absl::StatusOr<Place> FindCoordinator(const std::string& server);

// Where `job_id` is: with `server` that coordinator; otherwise a local job of this name, live or
// ended, else the coordinator of FindCoordinator.
absl::StatusOr<Place> FindJobPlace(const std::string& server, const std::string& job_id);

// A local job, live or ended.
absl::StatusOr<Place> OpenLocalJob(const LocalJob& job);

// FindJobPlace for commands that change a job, for which an ended one in a folder does not do.
absl::StatusOr<Place> FindLiveJob(const std::string& server, const std::string& job_id);

}  // namespace muster
