// The coordinator's replicas of the frame files of ranks: one file per (job, attempt, rank),
// written at the offset that the agent names, byte for byte. What is stored is a prefix of the
// source at all times, and its length, the committed size, is all the state there is: a restart
// reads it from the file system.
//
// Thread-safe. Writing happens on a thread of its own, reading on another and searching on a third,
// so neither the loop nor a gRPC reaction ever waits for a disk, and nobody else for a search.
// Memory: the caller bounds what it appends before `done` ran.
//
// Files: DIRECTORY/<job id>/<attempt>/rank-<five digits>.log, mode 0600.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/io/unique_fd.h"
#include "common/io/worker_thread.h"

namespace muster {

// Names one frame file.
struct StoredLogId {
  AttemptId attempt;
  Rank rank;
  friend auto operator<=>(const StoredLogId&, const StoredLogId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const StoredLogId& f) {
    return H::combine(std::move(h), f.attempt, f.rank);
  }
};

// Bytes of a file: those of `data`, then `zeros` bytes that are 0.
struct LogPiece {
  std::string data;
  uint64_t zeros = 0;
  uint64_t size() const { return data.size() + zeros; }
};

// Hears of growth.
class LogListener {
 public:
  virtual ~LogListener() = default;
  // `committed` bytes of `file` can be read now. Called on the writing thread, without locks; must
  // not block. Growth may be told once for several appends.
  virtual void OnLogGrowth(const StoredLogId& file, uint64_t committed) = 0;
};

class LogStore {
 public:
  struct Options {
    std::string directory;
    // True: a size is committed only when the disk has it (fdatasync), as under `serve`.
    bool durable = false;
    // Told once when output cannot be stored (a full disk, a file size limit), and once when it can
    // again. Called on the writing thread.
    std::function<void(const std::string& message)> on_trouble;
  };

  // Result of an append: the committed size, at least the end of the appended bytes.
  // FAILED_PRECONDITION: a gap, the bytes begin behind the committed size; nothing was written.
  // RESOURCE_EXHAUSTED: they could not be (completely) written; the source must keep them and try
  // again.
  using AppendDone = std::function<void(absl::StatusOr<uint64_t> committed)>;

  // Makes `directory` (mode 0700) when it is missing.
  static absl::StatusOr<std::unique_ptr<LogStore>> Open(Options options);
  // Writes what was appended, then ends the threads.
  ~LogStore();
  LogStore(const LogStore&) = delete;
  LogStore& operator=(const LogStore&) = delete;

  // Stores `piece` at `offset`; its zeros take no room. Bytes below the committed size are already
  // stored and are skipped. `done` runs on the writing thread, in the order of the calls.
  void Append(const StoredLogId& file, uint64_t offset, LogPiece piece, AppendDone done);

  // Looks the committed sizes up; `done` runs on the writing thread behind earlier appends.
  void GetCommitted(std::vector<StoredLogId> files,
                    std::function<void(absl::StatusOr<std::vector<uint64_t>>)> done);

  // Committed size; 0 for a file that does not exist. May wait for the disk when the file was not
  // used before.
  uint64_t CommittedSize(const StoredLogId& file) const;

  // True while the newest write to the file failed for want of space.
  bool Blocked(const StoredLogId& file) const;

  // Reads up to `max_bytes` at `offset` of what is committed; less only at its end. May wait for
  // the disk: call in a task given to `PostRead`.
  absl::StatusOr<std::string> Read(const StoredLogId& file, uint64_t offset,
                                   size_t max_bytes) const;

  // The same up to `end`, not beyond what is committed, with at most `max_bytes` of data. Long runs
  // of zeros that take no room on the disk are told by their length, however long they are.
  absl::StatusOr<LogPiece> ReadSparse(const StoredLogId& file, uint64_t offset, uint64_t end,
                                      size_t max_bytes) const;

  // Start of the first frame that begins no more than `tail_bytes` before the committed size; the
  // start of the last frame when it alone is longer. May wait for the disk.
  absl::StatusOr<uint64_t> TailStart(const StoredLogId& file, uint64_t tail_bytes) const;

  // Deletes every file of a job. Done on the writing thread.
  void Forget(const JobId& job);

  // Runs `task` on the reading thread.
  void PostRead(WorkerThread::Task task);
  // Runs `task` on a second reading thread: for those who look for something in what they read,
  // which may take seconds.
  void PostSearch(WorkerThread::Task task);

  // `listener` hears of every file of `attempt` until it is removed or expires.
  void AddListener(const AttemptId& attempt, std::weak_ptr<LogListener> listener);
  void RemoveListener(const AttemptId& attempt, const LogListener* listener);
  // `listener`, one at a time, hears of every file.
  void SetGlobalListener(std::weak_ptr<LogListener> listener);

  // DIRECTORY/<job id>/<attempt>/rank-<five digits>.log; empty when the job id is not one.
  std::string PathOf(const StoredLogId& file) const;

 private:
  struct Write {
    StoredLogId file;
    uint64_t offset = 0;
    LogPiece piece;
    AppendDone done;
  };
  // Of the writing thread.
  struct File {
    UniqueFd fd;
    // Bytes written without an error.
    uint64_t committed = 0;
    // Bytes that were told to anybody; in durable mode the disk has them.
    uint64_t synced = 0;
  };
  // What other threads may look at.
  struct Known {
    uint64_t committed = 0;
    bool blocked = false;
  };

  explicit LogStore(Options options) : options_(std::move(options)) {}

  void DrainWrites();
  void SyncFiles(const std::vector<Write>& batch, std::vector<absl::StatusOr<uint64_t>>& results,
                 absl::flat_hash_map<StoredLogId, uint64_t>& grown);
  absl::StatusOr<uint64_t> WriteOne(Write& write);
  static int WriteBytes(File& file, std::string_view data);
  static int WriteZeros(File& file, uint64_t end);
  absl::StatusOr<File*> OpenForWrite(const StoredLogId& file);
  void CloseIdle();
  absl::StatusOr<UniqueFd> OpenForRead(const StoredLogId& file) const;
  absl::Status ReadInto(const StoredLogId& file, int fd, uint64_t offset, std::string& data) const;
  absl::StatusOr<uint64_t> SizeOnDisk(const StoredLogId& file) const;
  void Tell(const absl::flat_hash_map<StoredLogId, uint64_t>& grown);
  void NoteTrouble(const StoredLogId& file, const absl::Status& status);
  void NoteGood(const StoredLogId& file);

  const Options options_;
  absl::flat_hash_map<StoredLogId, File> files_;
  uint64_t blocked_files_ = 0;
  bool trouble_told_ = false;

  mutable Mutex mutex_;
  std::vector<Write> pending_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  mutable absl::flat_hash_map<StoredLogId, Known> known_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<AttemptId, std::vector<std::weak_ptr<LogListener>>> listeners_
      ABSL_GUARDED_BY(mutex_);
  std::weak_ptr<LogListener> global_listener_ ABSL_GUARDED_BY(mutex_);

  // Last: their threads use everything above.
  WorkerThread reader_{"log-read"};
  WorkerThread searcher_{"log-search"};
  WorkerThread writer_{"log-write"};
};

}  // namespace muster
