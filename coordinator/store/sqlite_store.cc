#include "coordinator/store/sqlite_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <utility>

#include "common/base/annotate.h"
#include "common/io/unique_fd.h"
#include "common/io/worker_thread.h"
#include "common/log/log.h"
#include "coordinator/store/event_tables.h"

namespace muster {
namespace {

using Policy = SqliteStoreOptions::Policy;

// Names the file, and what to do.
absl::Status Explain(const absl::Status& status, const std::string& path) {
  if (!absl::IsDataLoss(status)) return Annotate(status, fmt::format("store {}", path));
  return absl::DataLossError(
      fmt::format("store {} is damaged: {}; restore it from a backup, or move it away to begin "
                  "without the jobs that it held",
                  path, MessageOf(status)));
}

// SQLite would make the file with the mode that the umask leaves.
absl::Status MakePrivateFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return ErrnoStatus(errno, "open");
  return absl::OkStatus();
}

// Moves the file and its write-ahead log out of the way and returns the new name.
absl::StatusOr<std::string> Quarantine(const std::string& path, WallTime now) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  const std::string target = fmt::format("{}.damaged-{}", path, seconds);
  if (::rename(path.c_str(), target.c_str()) != 0) {
    return ErrnoStatus(errno, fmt::format("rename {} to {}", path, target));
  }
  // Without its database the log is of no use to a new one, and it may not be there.
  (void)::rename((path + "-wal").c_str(), (target + "-wal").c_str());
  return target;
}

}  // namespace

class SqliteStore::Impl {
 public:
  Impl(SqliteStoreOptions options, Executor& executor, EventTables tables)
      : options_(std::move(options)), executor_(executor), tables_(std::move(tables)) {}

  ~Impl() { committer_.Stop(); }

  absl::StatusOr<StoredState> Load() {
    // First: what is damaged is put aside as it was found.
    const absl::Status whole = tables_.Check();
    if (!whole.ok()) return whole;
    const absl::StatusOr<uint64_t> epoch = tables_.RaiseEpoch();
    if (!epoch.ok()) return epoch.status();
    return tables_.ReadAll();
  }

  void Append(StoreBatch batch, Done done) {
    committer_.Post([this, batch = std::move(batch), done = std::move(done)]() mutable {
      absl::Status status = Commit(std::move(batch));
      executor_.Post(
          [alive = std::weak_ptr<int>(alive_), done = std::move(done), status = std::move(status)] {
            if (!alive.expired()) done(status);
          });
    });
  }

  const SqliteStoreOptions& options() const { return options_; }
  Executor& executor() { return executor_; }

 private:
  absl::Status Commit(StoreBatch batch) {
    if (options_.policy == Policy::kStrict) {
      absl::Status status = tables_.Write(batch);
      if (!status.ok()) {
        spdlog::error("store write failed path={} error={}", LogQuoted(options_.path),
                      LogQuoted(MessageOf(status)));
      }
      return Explain(status, options_.path);
    }
    // Order matters to a reader, so that what is kept goes first.
    kept_.push_back(std::move(batch));
    while (!kept_.empty()) {
      const absl::Status status = tables_.Write(kept_.front());
      if (!status.ok()) {
        Tell(status);
        return absl::OkStatus();
      }
      kept_.pop_front();
    }
    Tell(absl::OkStatus());
    return absl::OkStatus();
  }

  void Tell(const absl::Status& status) {
    if (std::exchange(failing_, !status.ok()) == !status.ok()) return;
    std::string message;
    if (status.ok()) {
      message = fmt::format("the state of the job can be stored again in {}", options_.path);
      spdlog::info("store can be written again path={}", LogQuoted(options_.path));
    } else {
      message = fmt::format("the state of the job cannot be stored in {} ({}); the job goes on",
                            options_.path, MessageOf(status));
      spdlog::warn("store write failed, going on in memory path={} error={}",
                   LogQuoted(options_.path), LogQuoted(MessageOf(status)));
    }
    if (options_.on_trouble) options_.on_trouble(message);
  }

  const SqliteStoreOptions options_;
  Executor& executor_;
  // Of the committing thread, after Load.
  EventTables tables_;
  std::deque<StoreBatch> kept_;
  bool failing_ = false;
  // Expires with the store: answers that are still posted then are dropped.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  // Last: its thread uses everything above.
  WorkerThread committer_{"store"};
};

SqliteStore::SqliteStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SqliteStore::~SqliteStore() = default;

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(SqliteStoreOptions options,
                                                               Executor& executor) {
  const bool durable = options.policy == Policy::kStrict;
  absl::Status made = MakePrivateFile(options.path);
  if (!made.ok()) return Explain(made, options.path);
  absl::StatusOr<EventTables> tables = EventTables::Open(options.path, true, durable);
  if (absl::IsDataLoss(tables.status()) && options.quarantine_damaged) {
    const absl::StatusOr<std::string> moved = Quarantine(options.path, executor.clock().WallNow());
    if (!moved.ok()) return moved.status();
    spdlog::warn("damaged store moved away path={} to={} error={}", LogQuoted(options.path),
                 LogQuoted(*moved), LogQuoted(MessageOf(tables.status())));
    made = MakePrivateFile(options.path);
    if (!made.ok()) return Explain(made, options.path);
    tables = EventTables::Open(options.path, true, durable);
  }
  if (!tables.ok()) return Explain(tables.status(), options.path);
  return std::unique_ptr<SqliteStore>(
      new SqliteStore(std::make_unique<Impl>(std::move(options), executor, *std::move(tables))));
}

absl::StatusOr<StoredState> SqliteStore::Load() {
  absl::StatusOr<StoredState> state = impl_->Load();
  if (state.ok()) return state;
  const SqliteStoreOptions options = impl_->options();
  if (!absl::IsDataLoss(state.status()) || !options.quarantine_damaged) {
    return Explain(state.status(), options.path);
  }
  // Opened well, damaged further in: the same as a file that does not open.
  Executor& executor = impl_->executor();
  impl_.reset();
  const absl::StatusOr<std::string> moved = Quarantine(options.path, executor.clock().WallNow());
  if (!moved.ok()) return moved.status();
  spdlog::warn("damaged store moved away path={} to={} error={}", LogQuoted(options.path),
               LogQuoted(*moved), LogQuoted(MessageOf(state.status())));
  absl::StatusOr<std::unique_ptr<SqliteStore>> fresh = Open(options, executor);
  if (!fresh.ok()) return fresh.status();
  impl_ = std::move((*fresh)->impl_);
  state = impl_->Load();
  if (!state.ok()) return Explain(state.status(), options.path);
  return state;
}

void SqliteStore::Append(StoreBatch batch, Done done) {
  impl_->Append(std::move(batch), std::move(done));
}

absl::StatusOr<StoredState> SqliteStore::Peek(const std::string& path) {
  absl::StatusOr<EventTables> tables = EventTables::OpenToRead(path);
  if (!tables.ok()) return Explain(tables.status(), path);
  const absl::Status whole = tables->Check();
  if (!whole.ok()) return Explain(whole, path);
  absl::StatusOr<StoredState> state = tables->ReadAll();
  if (!state.ok()) return Explain(state.status(), path);
  return state;
}

}  // namespace muster
