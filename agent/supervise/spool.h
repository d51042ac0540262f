// Reads the frame files of the ranks of this node, which the shims write, for the log shipper.
// Lives on the loop thread; blocks only in reads of files that were just written. It never writes.
// Of a file whose shim has not told how much of it is fixed, nothing is.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "agent/session/log_shipper.h"
#include "common/io/unique_fd.h"

namespace muster {

class FileSpool final : public SpoolReader {
 public:
  // `attempts_directory` holds the attempts' directories.
  explicit FileSpool(std::string attempts_directory) : root_(std::move(attempts_directory)) {}

  absl::StatusOr<Extent> Stat(const LogFileId& file) override;
  absl::StatusOr<std::string> Read(const LogFileId& file, uint64_t offset,
                                   uint64_t max_bytes) override;
  Run RunAt(const LogFileId& file, uint64_t offset) override;
  void Forget(const AttemptId& attempt) override;

  // The shim says that so many bytes from the beginning of the file never change.
  void SetFixed(const LogFileId& file, uint64_t bytes) { fixed_[file] = bytes; }

 private:
  struct Attempt {
    UniqueFd directory;
    std::map<uint32_t, UniqueFd> files;
  };

  // Null when the directory does not exist (yet).
  Attempt* Open(const AttemptId& id);
  // -1 when the file does not exist (yet).
  absl::StatusOr<int> OpenFile(const LogFileId& file);

  const std::string root_;
  std::map<AttemptId, Attempt> attempts_;
  std::map<LogFileId, uint64_t> fixed_;
};

}  // namespace muster
