// The directory of one attempt on this node, shared with its shim: lock, events.rec, sock, frame
// files of the ranks. A value that holds the open directory and, when taken, its lock. Everything
// in it is reached relative to the open directory and never through a symbolic link. Not
// thread-safe; calls are short.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/io/unique_fd.h"
#include "muster/internal/shim.pb.h"

namespace muster {

// Names in the directory; the shim knows the same ones.
inline constexpr char kLockFile[] = "lock";
inline constexpr char kRecordsFile[] = "events.rec";
inline constexpr char kSocketFile[] = "sock";
// What the shim printed to its stderr, and the path of the attempt's control group; made by the
// agent.
inline constexpr char kShimErrorFile[] = "shim.log";
inline constexpr char kCgroupFile[] = "cgroup";
// For ranks in containers: a ShimBootstrap with the engine, the user and the slots, made by the
// agent before the shim begins.
inline constexpr char kEngineFile[] = "engine";

// "<job>.<attempt>", and back. Job ids have no dot.
std::string AttemptDirectoryName(const AttemptId& id);
std::optional<AttemptId> ParseAttemptDirectoryName(std::string_view name);

// "rank-00012.log", and back.
std::string RankLogName(uint32_t rank);
std::optional<uint32_t> ParseRankLogName(std::string_view name);

class AttemptDirectory {
 public:
  // Makes and opens the directory (0700) below `root_fd`, whose absolute path is `root`.
  // ALREADY_EXISTS when there is one.
  static absl::StatusOr<AttemptDirectory> Create(int root_fd, const std::string& root,
                                                 const AttemptId& id);
  // NOT_FOUND when there is none.
  static absl::StatusOr<AttemptDirectory> Open(int root_fd, const std::string& root,
                                               const AttemptId& id);

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

  // Takes the lock of the directory unless somebody holds it. True: it is ours, so no shim lives,
  // and none that was started earlier can begin any more. False: a shim lives. It is kept until
  // Unlock or the end of the value.
  absl::StatusOr<bool> TryLock();
  void Unlock() { lock_.Reset(); }

  // Hands every whole record from index `next` on to `visit` until that returns false. No file: no
  // records.
  absl::Status ReadRecords(uint64_t next,
                           const std::function<bool(const internal::ShimRecord&)>& visit) const;

  // A small file's text, cut after `most_bytes`; empty when there is none.
  std::string ReadText(const char* name, size_t most_bytes) const;
  absl::Status WriteText(const char* name, std::string_view text) const;

 private:
  AttemptDirectory(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
  UniqueFd lock_;
};

}  // namespace muster
