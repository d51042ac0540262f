// Reads the frame files of the ranks of this node, and tells when they grow. The shims write them;
// the log shipper reads. Growth is noticed by inotify, told at most once per kGrowthInterval and
// file however fast a rank writes. Lives on the loop thread; blocks only in reads of files that
// were just written. It never writes.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "agent/session/log_shipper.h"
#include "common/io/event_loop.h"
#include "common/io/unique_fd.h"

namespace muster {

class InotifySpool final : public SpoolReader {
 public:
  static constexpr std::chrono::milliseconds kGrowthInterval{10};
  // How often known files are looked at where the kernel grants no inotify instance.
  static constexpr std::chrono::milliseconds kFallbackInterval{50};

  using Grew = std::function<void(const LogFileId&)>;

  // `attempts_directory` holds the attempts' directories and exists. `grew` runs from later turns
  // of the loop. `loop` outlives it.
  InotifySpool(EventLoop& loop, std::string attempts_directory, Grew grew);
  ~InotifySpool() override;
  InotifySpool(const InotifySpool&) = delete;
  InotifySpool& operator=(const InotifySpool&) = delete;

  absl::StatusOr<Extent> Stat(const LogFileId& file) override;
  absl::StatusOr<std::string> Read(const LogFileId& file, uint64_t offset,
                                   uint64_t max_bytes) override;
  void Forget(const AttemptId& attempt) override;

 private:
  struct Attempt {
    UniqueFd directory;
    int watch = -1;
    std::map<uint32_t, UniqueFd> files;
  };

  // Null when the directory does not exist (yet).
  Attempt* Open(const AttemptId& id);
  // -1 when the file does not exist (yet).
  absl::StatusOr<int> OpenFile(const LogFileId& file);
  void WatchAttempt(const AttemptId& id, Attempt& attempt);
  void ListFiles(const AttemptId& id, const Attempt& attempt);
  void OnReady();
  void Drain();
  void Poll();
  void Tell();

  EventLoop& loop_;
  const std::string root_;
  const Grew grew_;
  UniqueFd inotify_;
  int root_watch_ = -1;
  std::map<AttemptId, Attempt> attempts_;
  std::map<int, AttemptId> by_watch_;
  std::set<LogFileId> grown_;
  Executor::TimerId timer_ = 0;
};

}  // namespace muster
