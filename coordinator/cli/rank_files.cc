#include "coordinator/cli/rank_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/annotate.h"

namespace muster {
namespace {

// Beyond this, files are closed and opened again when they are needed.
constexpr size_t kOpenFiles = 256;
// Frames per writev.
constexpr size_t kBatchFrames = 256;
static_assert(kBatchFrames <= IOV_MAX);

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), fmt::format("log folder {}", path));
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0)
    return ErrnoStatus(errno, fmt::format("log folder {}", path));
  if (!S_ISDIR(info.st_mode)) return ErrnoStatus(ENOTDIR, fmt::format("log folder {}", path));
  return absl::OkStatus();
}

// Points `link` at `target` in one step, so that it always points somewhere.
absl::Status PointAt(const std::string& link, const std::string& target) {
  const std::string fresh = fmt::format("{}.{}", link, ::getpid());
  (void)::unlink(fresh.c_str());  // left by a process of the same id that died here
  if (::symlink(target.c_str(), fresh.c_str()) != 0) return ErrnoStatus(errno, fresh);
  if (::rename(fresh.c_str(), link.c_str()) != 0) {
    const absl::Status status = ErrnoStatus(errno, link);
    (void)::unlink(fresh.c_str());
    return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareLogDirectory(const std::string& directory) {
  if (absl::Status status = MakeFolders(directory); !status.ok()) return status;
  std::string probe = directory + "/.writable-XXXXXX";
  const UniqueFd fd(::mkostemp(probe.data(), O_CLOEXEC));
  if (!fd) {
    return ErrnoStatus(errno, fmt::format("log folder {}: no file can be made in it", directory));
  }
  (void)::unlink(probe.c_str());
  return absl::OkStatus();
}

RankFiles::RankFiles(const std::string& directory, const std::string& job_id, OnTrouble on_trouble)
    : on_trouble_(std::move(on_trouble)), folder_(directory + "/" + job_id), demux_(*this) {
  if (absl::Status status = MakeFolders(folder_); !status.ok()) {
    Trouble(status);
    return;
  }
  usable_ = true;
  if (absl::Status status = PointAt(directory + "/latest", job_id); !status.ok()) {
    on_trouble_(fmt::format("cannot point {}/latest at the log folder of this job: {}", directory,
                            MessageOf(status)));
  }
}

void RankFiles::Take(const v1::ReadLogsResponse& piece) {
  first_frame_ = true;
  batching_ = piece.zeros() == 0;
  demux_.Take(piece);
  WriteBatch();
}

void RankFiles::Finish(uint32_t rank_count) {
  for (uint32_t rank = 0; rank < rank_count && usable_; ++rank) {
    if (!files_[rank].created && Open(rank) < 0) break;
  }
  files_.clear();
  open_files_ = 0;
}

std::string RankFiles::PathOf(uint32_t rank) const {
  return fmt::format("{}/rank_{}.log", folder_, rank);
}

int RankFiles::Open(uint32_t rank) {
  File& file = files_[rank];
  if (file.fd) return file.fd.get();
  if (open_files_ >= kOpenFiles) {
    for (auto& [other, entry] : files_) entry.fd.Reset();
    open_files_ = 0;
  }
  const std::string path = PathOf(rank);
  file.fd.Reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.fd) {
    Trouble(ErrnoStatus(errno, path));
    return -1;
  }
  ++open_files_;
  file.created = true;
  return file.fd.get();
}

void RankFiles::OnFrame(uint32_t rank, const Frame& frame) {
  if (const std::optional<FrameGap> gap = DroppedBy(frame)) {
    missing_bytes_ += gap->stdout_bytes + gap->stderr_bytes;
    return;
  }
  if (frame.kind != FrameKind::kStdout && frame.kind != FrameKind::kStderr) return;
  // A frame that came in several pieces lies in a buffer that the next frame overwrites, so it is
  // written at once; it is the first of its piece, where that has no zeros.
  batch_rank_ = rank;
  batch_.push_back(frame.payload);
  if (std::exchange(first_frame_, !batching_) || batch_.size() == kBatchFrames) WriteBatch();
}

void RankFiles::WriteBatch() {
  if (batch_.empty()) return;
  std::vector<std::string_view> batch = std::exchange(batch_, {});
  uint64_t bytes = 0;
  for (std::string_view part : batch) bytes += part.size();
  const int fd = usable_ ? Open(batch_rank_) : -1;
  size_t next = 0;
  while (fd >= 0 && next < batch.size()) {
    iovec parts[kBatchFrames];
    int count = 0;
    for (size_t i = next; i < batch.size(); ++i) {
      parts[count++] = {const_cast<char*>(batch[i].data()), batch[i].size()};
    }
    ssize_t written = ::writev(fd, parts, count);
    if (written < 0) {
      if (errno == EINTR) continue;
      Trouble(ErrnoStatus(errno, PathOf(batch_rank_)));
      break;
    }
    bytes -= static_cast<uint64_t>(written);
    while (next < batch.size() && static_cast<size_t>(written) >= batch[next].size()) {
      written -= static_cast<ssize_t>(batch[next].size());
      ++next;
    }
    if (next < batch.size()) batch[next].remove_prefix(static_cast<size_t>(written));
  }
  missing_bytes_ += bytes;
  batch.clear();
  batch_.swap(batch);
}

void RankFiles::OnRankEnd(uint32_t rank, uint64_t missing_bytes) {
  WriteBatch();
  missing_bytes_ += missing_bytes;
  if (const auto it = files_.find(rank); it != files_.end() && it->second.fd) {
    it->second.fd.Reset();
    --open_files_;
  }
}

void RankFiles::OnDamage(uint32_t rank, uint64_t offset) {
  Trouble(absl::DataLossError(fmt::format(
      "{}: the stored log is damaged at byte {}, the rest is left out", PathOf(rank), offset)));
}

void RankFiles::OnNewAttempt(uint32_t) { WriteBatch(); }

void RankFiles::Trouble(const absl::Status& status) {
  if (std::exchange(told_, true)) return;
  on_trouble_(
      fmt::format("warning: cannot write the log {}; the job goes on, what is missing is counted",
                  MessageOf(status)));
}

}  // namespace muster
