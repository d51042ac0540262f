#include "coordinator/daemon/local_jobs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <system_error>

#include "common/base/annotate.h"
#include "common/io/atomic_file.h"
#include "common/io/unique_fd.h"
#include "coordinator/store/directory_lock.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr char kMarker[] = "muster-local-job";
constexpr std::string_view kRunPrefix = "run-";

std::string Variable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

// Also keeps a name given by the user from leaving the directory.
bool IsJobId(const std::string& id) {
  if (id.empty() || id.size() > 63) return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

bool IsRun(const fs::path& folder) {
  std::error_code error;
  return folder.filename().string().starts_with(kRunPrefix) &&
         fs::is_directory(fs::symlink_status(folder, error)) &&
         fs::is_regular_file(fs::symlink_status(folder / kMarker, error));
}

// The end of a run, near enough: then its store was written for the last time.
fs::file_time_type LastUse(const fs::path& run) {
  fs::file_time_type last = fs::file_time_type::min();
  for (const char* name : {kMarker, "store.db", "store.db-wal", "address"}) {
    std::error_code error;
    const fs::file_time_type time = fs::last_write_time(run / name, error);
    if (!error) last = std::max(last, time);
  }
  return last;
}

bool HasOutput(const fs::path& run) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(run / "logs", error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_regular_file(error)) return true;
  }
  return false;
}

LocalJob Describe(const std::string& job_id, const std::string& folder) {
  LocalJob job{job_id, folder, ""};
  // The lock decides whether it lives: a process that was killed leaves its address behind.
  if (!DirectoryLock::IsFree(folder) && ReadFile(folder + "/address", job.address, 4096)) {
    job.address.clear();
  }
  return job;
}

absl::Status NotWritable(int error, const std::string& folder) {
  return ErrnoStatus(
      error, fmt::format("the folder of local jobs cannot be used (set MUSTER_LOCAL_DIR to one "
                         "that can be written): make directory {}",
                         folder));
}

}  // namespace

std::string LocalJobsDirectory() {
  std::string directory = Variable("MUSTER_LOCAL_DIR");
  if (directory.empty() && !Variable("XDG_STATE_HOME").empty()) {
    directory = Variable("XDG_STATE_HOME") + "/muster/local";
  }
  if (directory.empty() && !Variable("HOME").empty()) {
    directory = Variable("HOME") + "/.local/state/muster/local";
  }
  if (directory.empty()) directory = fmt::format("/var/tmp/muster-{}/local", ::geteuid());
  std::error_code error;
  const fs::path absolute = fs::absolute(directory, error);
  if (!error) directory = absolute.lexically_normal().string();
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  return directory;
}

absl::Status MakeLocalJobsDirectory(const std::string& directory) {
  for (size_t slash = directory.find('/', 1);; slash = directory.find('/', slash + 1)) {
    const std::string part = directory.substr(0, slash);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return NotWritable(errno, part);
    }
    if (slash == std::string::npos) break;
  }
  struct stat info;
  if (::stat(directory.c_str(), &info) != 0) {
    return ErrnoStatus(errno, fmt::format("look at {}", directory));
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(fmt::format("{} is not a directory", directory));
  }
  if (info.st_uid != ::geteuid()) {
    return absl::PermissionDeniedError(
        fmt::format("{} belongs to user {}: set MUSTER_LOCAL_DIR to a folder of your own",
                    directory, info.st_uid));
  }
  return absl::OkStatus();
}

std::optional<LocalJob> FindLocalJob(const std::string& job_id) {
  return FindLocalJob(LocalJobsDirectory(), job_id);
}

std::optional<LocalJob> FindLocalJob(const std::string& directory, const std::string& job_id) {
  if (!IsJobId(job_id)) return std::nullopt;
  std::error_code error;
  const fs::path folder = fs::read_symlink(fs::path(directory) / job_id, error);
  if (error || folder.has_parent_path()) return std::nullopt;
  const fs::path run = fs::path(directory) / folder;
  if (!IsRun(run)) return std::nullopt;
  return Describe(job_id, run.string());
}

std::vector<LocalJob> ListLocalJobs(const std::string& directory) {
  std::vector<LocalJob> jobs;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_symlink(error)) continue;
    if (std::optional<LocalJob> job = FindLocalJob(directory, name)) jobs.push_back(*job);
  }
  // Names of runs begin with the time.
  std::sort(jobs.begin(), jobs.end(),
            [](const LocalJob& a, const LocalJob& b) { return a.folder > b.folder; });
  return jobs;
}

absl::StatusOr<std::string> MakeRunFolder(const std::string& directory) {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm utc = {};
  ::gmtime_r(&now.tv_sec, &utc);
  char seconds[32];
  ::strftime(seconds, sizeof seconds, "%Y%m%d-%H%M%S", &utc);
  // With milliseconds, so that the order of names is the order of runs.
  const std::string stamp = fmt::format("{}.{:03}", seconds, now.tv_nsec / 1'000'000);
  for (int tries = 0; tries < 100; ++tries) {
    uint32_t random = 0;
    (void)!::getrandom(&random, sizeof random, 0);  // another name is all that it is for
    std::string folder = fmt::format("{}/{}{}-{:08x}", directory, kRunPrefix, stamp, random);
    if (::mkdir(folder.c_str(), 0700) == 0) {
      const std::string marker = fmt::format("{}/{}", folder, kMarker);
      const UniqueFd fd(::open(marker.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      if (!fd) return ErrnoStatus(errno, fmt::format("make {}", marker));
      return folder;
    }
    if (errno != EEXIST) return NotWritable(errno, folder);
  }
  return absl::AlreadyExistsError(fmt::format("no free name for a folder in {}", directory));
}

absl::Status LinkLocalJob(const std::string& directory, const std::string& job_id,
                          const std::string& folder) {
  if (!IsJobId(job_id)) return absl::InvalidArgumentError("not the id of a job");
  const std::string link = fmt::format("{}/{}", directory, job_id);
  const std::string target = fs::path(folder).filename().string();
  if (::symlink(target.c_str(), link.c_str()) == 0) return absl::OkStatus();
  std::error_code error;
  if (errno == EEXIST && fs::read_symlink(link, error) == fs::path(target)) return absl::OkStatus();
  return ErrnoStatus(EEXIST, fmt::format("link {}", link));
}

size_t PruneLocalRuns(const std::string& directory, size_t keep) {
  std::vector<std::pair<fs::file_time_type, fs::path>> runs;
  std::vector<fs::path> links;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (IsRun(entry.path())) {
      runs.emplace_back(LastUse(entry.path()), entry.path());
    } else if (entry.is_symlink(error)) {
      links.push_back(entry.path());
    }
  }
  std::sort(runs.begin(), runs.end(), std::greater<>());
  size_t deleted = 0;
  size_t with_output = 0;
  size_t without_output = 0;
  for (const auto& [last_use, run] : runs) {
    if (++(HasOutput(run) ? with_output : without_output) <= keep) continue;
    // Held while deleting, so that nobody opens what is about to go.
    absl::StatusOr<DirectoryLock> lock = DirectoryLock::Acquire(run.string());
    if (!lock.ok()) continue;
    // The marker goes last, so that what an interrupted run of this leaves is found again.
    for (const fs::directory_entry& entry : fs::directory_iterator(run, error)) {
      if (entry.path().filename() != kMarker) fs::remove_all(entry.path(), error);
    }
    fs::remove_all(run, error);
    if (!error) ++deleted;
  }
  for (const fs::path& link : links) {
    const fs::path target = fs::read_symlink(link, error);
    if (error || target.has_parent_path() || !target.string().starts_with(kRunPrefix)) continue;
    if (!fs::exists(fs::symlink_status(fs::path(directory) / target, error))) {
      fs::remove(link, error);
    }
  }
  return deleted;
}

}  // namespace muster
