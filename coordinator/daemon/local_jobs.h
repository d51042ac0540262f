// The folder of local jobs: where it is, which jobs are in it, and which old ones go. Blocks; any
// thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// Runs that are kept besides those in use.
inline constexpr size_t kKeptLocalRuns = 20;

// $MUSTER_LOCAL_DIR, else $XDG_STATE_HOME/muster/local, else ~/.local/state/muster/local, else
// /var/tmp/muster-<uid>/local. Absolute.
std::string LocalJobsDirectory();

// Makes `directory` and what is missing above it, with mode 0700. Refuses one that belongs to
// somebody else.
absl::Status MakeLocalJobsDirectory(const std::string& directory);

// A local job.
struct LocalJob {
  std::string job_id;
  // Folder of its run.
  std::string folder;
  // `unix:/path` while its coordinator lives; empty once it has ended.
  std::string address;
};

// The local job of this id; nothing when there is none. The first form looks in
// LocalJobsDirectory().
std::optional<LocalJob> FindLocalJob(const std::string& job_id);
std::optional<LocalJob> FindLocalJob(const std::string& directory, const std::string& job_id);

// All local jobs, the newest first.
std::vector<LocalJob> ListLocalJobs(const std::string& directory);

// Makes the folder of a new run and returns its path.
absl::StatusOr<std::string> MakeRunFolder(const std::string& directory);

// Lets FindLocalJob find the run by the id of its job.
absl::Status LinkLocalJob(const std::string& directory, const std::string& job_id,
                          const std::string& folder);

// Deletes old runs, and links that lead nowhere. Kept are the `keep` runs with output of a rank
// that were in use last, and as many without, so that failed starts do not push out the logs of a
// job. Runs in use stay, and so does everything that is not marked as a run. Returns how many were
// deleted.
size_t PruneLocalRuns(const std::string& directory, size_t keep = kKeptLocalRuns);

}  // namespace muster
