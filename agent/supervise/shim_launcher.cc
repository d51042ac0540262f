#include "agent/supervise/shim_launcher.h"

#include <dirent.h>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/supervise/cgroup.h"
#include "agent/supervise/container_sweep.h"
#include "agent/supervise/remove_tree.h"
#include "agent/supervise/sweep.h"
#include "common/base/annotate.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

// How long a shim that has nothing more to do takes to end, at most.
constexpr milliseconds kQuitTime{1000};

constexpr size_t kMostPathBytes = 4096;
// With the environment of the agent in it.
constexpr size_t kMostEngineBytes = size_t{8} << 20;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

std::vector<std::string> ListNames(int directory_fd) {
  std::vector<std::string> names;
  // A description of its own, because reading moves its position.
  const int fd = ::openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return names;
  const std::unique_ptr<DIR, CloseDirectory> directory(::fdopendir(fd));
  if (!directory) {
    ::close(fd);
    return names;
  }
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<Launcher::LogSize> ReadLogSizes(int directory_fd) {
  std::vector<Launcher::LogSize> logs;
  for (const std::string& name : ListNames(directory_fd)) {
    const std::optional<uint32_t> rank = ParseRankLogName(name);
    struct stat info = {};
    if (!rank || ::fstatat(directory_fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode)) {
      continue;
    }
    logs.push_back({*rank, static_cast<uint64_t>(info.st_size)});
  }
  std::sort(logs.begin(), logs.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return logs;
}

absl::Status MakeDirectories(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoStatus(errno, part);
    if (end == std::string::npos) return absl::OkStatus();
  }
}

std::string CgroupOf(const AttemptDirectory& directory) {
  return directory.ReadText(kCgroupFile, kMostPathBytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShimLauncher>> ShimLauncher::Create(EventLoop& loop,
                                                                   ShimLauncherOptions options) {
  const absl::Status made = MakeDirectories(options.attempts_directory);
  if (!made.ok()) return made;
  UniqueFd root(::open(options.attempts_directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return ErrnoStatus(errno, options.attempts_directory);
  return std::unique_ptr<ShimLauncher>(new ShimLauncher(loop, std::move(options), std::move(root)));
}

ShimLauncher::ShimLauncher(EventLoop& loop, ShimLauncherOptions options, UniqueFd root)
    : loop_(loop), options_(std::move(options)), root_(std::move(root)), reaper_(loop) {
  if (options_.cgroup_parent.empty()) return;
  stale_timer_ = loop_.PostAfter(options_.stale_cgroups_delay, [this] { RemoveStaleCgroups(); });
}

void ShimLauncher::RemoveStaleCgroups() {
  std::vector<std::string> groups = ListCgroups(options_.cgroup_parent);
  if (options_.scopes != nullptr) {
    // The scopes themselves are systemd's: it removes those that are empty.
    for (const std::string& scope : ListCgroups(options_.scopes->directory())) {
      for (std::string& group : ListCgroups(scope)) groups.push_back(std::move(group));
    }
  }
  for (std::string& group : groups) {
    worker().Post([group = std::move(group)] { RemoveStaleCgroup(group); });
  }
}

ShimLauncher::~ShimLauncher() {
  loop_.Cancel(stale_timer_);
  // Posted tasks and timers can hold followers for longer than this, and beyond the life of the
  // loop.
  for (const std::weak_ptr<ShimFollower>& made : made_) {
    if (const Follower shim = made.lock()) shim->Shut();
  }
}

WorkerThread& ShimLauncher::worker() {
  if (!worker_) worker_ = std::make_unique<WorkerThread>("supervise");
  return *worker_;
}

std::vector<AttemptId> ShimLauncher::ListAttempts() {
  std::vector<AttemptId> ids;
  for (const std::string& name : ListNames(root_.get())) {
    if (const std::optional<AttemptId> id = ParseAttemptDirectoryName(name)) ids.push_back(*id);
  }
  return ids;
}

ShimLauncher::Follower ShimLauncher::Find(const AttemptId& id) const {
  const auto it = followers_.find(id);
  return it == followers_.end() ? nullptr : it->second;
}

ShimLauncher::Follower ShimLauncher::Make(const AttemptId& id) {
  Follower& slot = followers_[id];
  if (slot) {
    slot->Detach();
    // The new one must not take the old one for a shim.
    if (slot->directory() != nullptr) slot->directory()->Unlock();
  }
  slot = std::make_shared<ShimFollower>(loop_, reaper_, static_cast<ShimFollower::Owner&>(*this),
                                        id, options_.stop_limit);
  std::erase_if(made_, [](const auto& made) { return made.expired(); });
  made_.push_back(slot);
  return slot;
}

ShimLauncher::Follower ShimLauncher::FindOrOpen(const AttemptId& id) {
  if (Follower shim = Find(id)) return shim;
  absl::StatusOr<AttemptDirectory> directory =
      AttemptDirectory::Open(root_.get(), options_.attempts_directory, id);
  if (!directory.ok()) return nullptr;
  Follower shim = Make(id);
  shim->Detach();
  shim->Adopt(*std::move(directory), 1);
  return shim;
}

void ShimLauncher::Adopt(const AttemptId& id, uint64_t next_index) {
  Follower shim = Make(id);
  absl::StatusOr<AttemptDirectory> directory =
      AttemptDirectory::Open(root_.get(), options_.attempts_directory, id);
  if (directory.ok()) {
    shim->Adopt(*std::move(directory), next_index);
  } else if (absl::IsNotFound(directory.status())) {
    shim->Fail("nothing of the attempt is on this node");
  } else {
    shim->Fail(std::string(MessageOf(directory.status())));
  }
}

void ShimLauncher::Run(const AttemptId& id, internal::ShimRun run) {
  if (const Follower shim = Find(id)) shim->Run(std::move(run));
}

void ShimLauncher::Stop(const AttemptId& id, milliseconds grace) {
  if (const Follower shim = Find(id)) shim->Stop(grace);
}

void ShimLauncher::Signal(const AttemptId& id, int signal, std::vector<uint32_t> ranks) {
  if (const Follower shim = Find(id)) shim->Signal(signal, ranks);
}

void ShimLauncher::Renew(const AttemptId& id, milliseconds lease) {
  if (const Follower shim = Find(id)) shim->Renew(lease);
}

void ShimLauncher::Committed(const AttemptId& id, uint32_t rank, uint64_t bytes) {
  if (const Follower shim = Find(id)) shim->Committed(rank, bytes);
}

void ShimLauncher::Quit(const AttemptId& id) {
  if (const Follower shim = Find(id)) shim->Quit();
}

void ShimLauncher::OnShimRecord(ShimFollower& shim, const internal::ShimRecord& record) {
  // By now it has its own.
  cgroup_locks_.erase(shim.id());
  if (observer_ != nullptr) observer_->OnRecord(shim.id(), record);
  if (all_stopped_ && shim.finished()) shim.Quit();
}

void ShimLauncher::OnLogsGrew(ShimFollower& shim, const internal::ShimLogsGrew& grew) {
  if (!logs_grew_) return;
  for (int i = 0; i < grew.ranks_size(); ++i) {
    // A shim that does not tell never changes anything.
    const uint64_t fixed = i < grew.fixed_bytes_size() ? grew.fixed_bytes(i) : UINT64_MAX;
    logs_grew_(shim.id(), grew.ranks(i), fixed);
  }
}

void ShimLauncher::OnShimGone(ShimFollower& shim, const std::string& reason) {
  cgroup_locks_.erase(shim.id());
  if (observer_ != nullptr) observer_->OnGone(shim.id(), reason);
  if (!all_stopped_) return;
  // Nobody else may come to it any more.
  if (!shim.finished()) Sweep(shim.id(), [](SweepResult) {});
  loop_.Post([this, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) CheckStopped();
  });
}

void ShimLauncher::Sweep(const AttemptId& id, SweepDone finish) {
  ++sweeps_;
  const SweepDone done = [this, finish = std::move(finish)](SweepResult result) {
    --sweeps_;
    finish(std::move(result));
    CheckStopped();
  };
  const Follower shim = FindOrOpen(id);
  if (!shim) {
    SweepDead(id, nullptr, true, done);
    return;
  }
  shim->Detach();
  shim->Kill();
  std::weak_ptr<int> alive = alive_;
  shim->WhenDead(options_.quit_limit, [this, alive, id, shim, done](bool dead) {
    if (!alive.expired()) SweepDead(id, shim, dead, done);
  });
}

// Also when the shim would not die: then at least its ranks.
void ShimLauncher::SweepDead(const AttemptId& id, const Follower& shim, bool dead, SweepDone done) {
  SweepTarget target = {.attempt = id, .node = options_.node_id};
  AttemptDirectory* const directory = shim ? shim->directory() : nullptr;
  UniqueFd directory_fd;
  std::string engine;
  if (directory != nullptr) {
    engine = directory->ReadText(kEngineFile, kMostEngineBytes);
    target.cgroup_directory = CgroupOf(*directory);
    std::map<uint32_t, ProcessIdentity> running;
    bool this_boot = false;
    const absl::Status read = directory->ReadRecords(1, [&](const internal::ShimRecord& record) {
      if (record.has_begun()) this_boot = record.begun().boot_id() == options_.boot_id;
      if (record.has_rank_started()) {
        const internal::ShimRankStarted& started = record.rank_started();
        running[started.rank()] = {started.pid(), started.start_ticks()};
      }
      if (record.has_rank_exited()) running.erase(record.rank_exited().rank());
      return true;
    });
    if (this_boot) {
      for (const auto& [rank, process] : running) target.ranks.push_back(process);
    }
    if (!read.ok()) spdlog::warn("sweep records error=\"{}\"", MessageOf(read));
    directory_fd.Reset(::fcntl(directory->fd(), F_DUPFD_CLOEXEC, 3));
  }
  std::weak_ptr<int> alive = alive_;
  worker().Post([this, alive, dead, target = std::move(target), limit = options_.sweep_limit,
                 fd = std::make_shared<UniqueFd>(std::move(directory_fd)),
                 engine = std::move(engine), done = std::move(done)] {
    const muster::SweepResult swept = muster::Sweep(target, limit);
    SweepResult result;
    result.killed = swept.killed;
    result.unkillable = swept.unkillable;
    if (!dead) result.unkillable.push_back("muster-shim of the attempt");
    if (!engine.empty()) {
      ContainerSweep containers =
          SweepContainers(options_.shim_binary, options_.environ, engine, limit);
      result.killed += containers.killed;
      for (std::string& text : containers.left) result.unkillable.push_back(std::move(text));
    }
    if (*fd) result.logs = ReadLogSizes(fd->get());
    loop_.Post([alive, done, result = std::move(result)]() mutable {
      if (!alive.expired()) done(std::move(result));
    });
  });
}

void ShimLauncher::Release(const AttemptId& id) {
  cgroup_locks_.erase(id);
  const Follower shim = FindOrOpen(id);
  if (!shim) return;
  followers_.erase(id);
  shim->Detach();
  const std::string cgroup = shim->directory() != nullptr ? CgroupOf(*shim->directory()) : "";
  leaving_[id] = shim;
  std::weak_ptr<int> alive = alive_;
  const auto gone = [this, alive, id, shim, cgroup](bool dead) {
    if (alive.expired()) return;
    if (!dead) {
      spdlog::warn("shim does not exit, killed job={} attempt={}", id.job.value(), id.attempt);
      shim->Kill();
    }
    const auto it = leaving_.find(id);
    if (it != leaving_.end() && it->second == shim) leaving_.erase(it);
    Delete(id, cgroup);
    CheckStopped();
  };
  shim->Quit();
  shim->WhenDead(options_.quit_limit, gone);
}

void ShimLauncher::Delete(const AttemptId& id, std::string cgroup) {
  worker().Post([root = root_.get(), name = AttemptDirectoryName(id), cgroup = std::move(cgroup)] {
    absl::Status status = cgroup.empty() ? absl::OkStatus() : RemoveCgroup(cgroup);
    if (!status.ok()) spdlog::warn("cgroup not deleted error=\"{}\"", MessageOf(status));
    status = RemoveTree(root, name);
    if (!status.ok())
      spdlog::warn("attempt not deleted name={} error=\"{}\"", name, MessageOf(status));
  });
}

void ShimLauncher::RemoveCgroups() {
  for (const auto& [id, shim] : followers_) {
    const std::string cgroup = shim->directory() != nullptr ? CgroupOf(*shim->directory()) : "";
    if (cgroup.empty()) continue;
    worker().Post([cgroup] {
      // Fails where something does not die; the next agent tries again.
      (void)RemoveCgroup(cgroup);
    });
  }
}

bool ShimLauncher::AnyAlive() const {
  const auto lives = [](const auto& entry) { return !entry.second->dead(); };
  return std::any_of(followers_.begin(), followers_.end(), lives) || !leaving_.empty();
}

void ShimLauncher::CheckStopped() {
  if (!all_stopped_ || AnyAlive() || sweeps_ > 0) return;
  RemoveCgroups();
  const auto done = std::exchange(all_stopped_, nullptr);
  done();
}

// A shim whose ranks cannot be killed has said so and stays, with their slots: not waited for.
void ShimLauncher::LeaveStuckAlone() {
  loop_.PostAfter(kQuitTime, [this, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired() || !all_stopped_) return;
    const bool all_finished = std::all_of(
        followers_.begin(), followers_.end(),
        [](const auto& entry) { return entry.second->dead() || entry.second->finished(); });
    if (!all_finished || sweeps_ > 0 || !leaving_.empty()) return LeaveStuckAlone();
    RemoveCgroups();
    const auto done = std::exchange(all_stopped_, nullptr);
    done();
  });
}

void ShimLauncher::StopAll(milliseconds grace, milliseconds limit, const std::string& reason,
                           std::function<void()> done) {
  ending_ = true;
  all_stopped_ = std::move(done);
  std::weak_ptr<int> alive = alive_;
  for (const auto& [id, shim] : followers_) {
    shim->Stop(grace, reason);
    if (shim->finished()) shim->Quit();
  }
  std::vector<AttemptId> dead;
  for (const auto& [id, shim] : followers_) {
    if (shim->dead() && !shim->finished()) dead.push_back(id);
  }
  for (const AttemptId& id : dead) Sweep(id, [](SweepResult) {});
  LeaveStuckAlone();
  loop_.PostAfter(limit, [this, alive] {
    if (alive.expired() || !all_stopped_) return;
    auto left = std::make_shared<size_t>(1);
    const auto one = [this, left] {
      if (--*left > 0 || !all_stopped_) return;
      RemoveCgroups();
      const auto stopped = std::exchange(all_stopped_, nullptr);
      stopped();
    };
    std::vector<AttemptId> ids;
    for (const auto& [id, shim] : followers_) {
      if (!shim->dead()) ids.push_back(id);
    }
    for (const AttemptId& id : ids) {
      ++*left;
      Sweep(id, [one](SweepResult) { one(); });
    }
    one();
  });
  loop_.Post([this, alive] {
    if (!alive.expired()) CheckStopped();
  });
}

}  // namespace muster
