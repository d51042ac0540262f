#include "agent/shim/rank_log.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/shim/text.h"

namespace muster::shim {
namespace {

constexpr size_t kCountersFrameBytes = kFrameHeaderBytes + kFrameCountersBytes;
// Room for a gap and the end frame is never given to output.
constexpr uint64_t kTailBytes = 2 * kCountersFrameBytes;
constexpr uint64_t kFirstReserveBytes = uint64_t{64} << 10;
constexpr uint64_t kMostReserveBytes = uint64_t{8} << 20;
constexpr uint64_t kPunchAlignment = uint64_t{64} << 10;
// A system call for every few megabytes, however often the agent reports.
constexpr uint64_t kPunchStepBytes = uint64_t{4} << 20;
constexpr milliseconds kRetryAfter{100};

// The counters frame `kind` as one string of bytes.
std::string CountersFrame(FrameKind kind, int64_t time_ns,
                          const std::array<char, kFrameCountersBytes>& payload) {
  std::string frame;
  AppendFrame(frame, kind, time_ns, {payload.data(), payload.size()});
  return frame;
}

}  // namespace

void RankLog::Begin(std::string path, uint64_t quota_bytes, uint64_t file_size_limit) {
  path_ = std::move(path);
  quota_bytes_ = quota_bytes;
  file_size_limit_ = file_size_limit;
}

// False, with errno, when the file cannot be created.
bool RankLog::EnsureFile() {
  if (fd_) return true;
  fd_.Reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  return fd_.valid();
}

void RankLog::Write(FrameKind stream, std::string_view bytes, int64_t time_ns, SteadyTime now) {
  written_bytes_ += bytes.size();
  if (now < blocked_until_) return Drop(stream, bytes.size(), "");
  if (!WriteRest()) {
    blocked_until_ = now + kRetryAfter;
    return Drop(stream, bytes.size(), "");
  }
  const uint64_t header_bytes = kFrameHeaderBytes + (HasGap() ? kCountersFrameBytes : 0);
  if (quota_bytes_ != 0 &&
      size_bytes_ + header_bytes + bytes.size() > committed_bytes_ + quota_bytes_) {
    return Drop(stream, bytes.size(),
                "more than the quota of " + std::to_string(quota_bytes_) +
                    " bytes wait for the coordinator");
  }
  // Fill the file to the brim: where the whole does not fit, the beginning may.
  std::string_view kept = bytes;
  const uint64_t limit_room =
      file_size_limit_ - std::min(file_size_limit_, size_bytes_ + kTailBytes);
  if (header_bytes + kept.size() > limit_room) {
    kept = kept.substr(0, limit_room > header_bytes ? limit_room - header_bytes : 0);
    if (kept.empty()) {
      blocked_until_ = now + kRetryAfter;
      return Drop(stream, bytes.size(), ErrnoText(EFBIG));
    }
  }
  if (!Reserve(header_bytes + kept.size() + kTailBytes)) {
    blocked_until_ = now + kRetryAfter;
    return Drop(stream, bytes.size(), ErrnoText(errno));
  }

  std::string gap_frame;
  if (HasGap()) gap_frame = CountersFrame(FrameKind::kGap, time_ns, EncodeFrameGap(gap_));
  auto header = EncodeFrameHeader({stream, static_cast<uint32_t>(kept.size()), time_ns});
  iovec parts[3];
  int count = 0;
  if (!gap_frame.empty()) parts[count++] = {gap_frame.data(), gap_frame.size()};
  parts[count++] = {header.data(), header.size()};
  parts[count++] = {const_cast<char*>(kept.data()), kept.size()};
  if (!WriteFrames(parts, count, kept.size())) {
    blocked_until_ = now + kRetryAfter;
    if (rest_.empty()) return Drop(stream, bytes.size(), ErrnoText(errno));
  }
  gap_ = {};
  if (kept.size() < bytes.size()) {
    Drop(stream, bytes.size() - kept.size(), ErrnoText(EFBIG));
    blocked_until_ = now + kRetryAfter;
  }
}

void RankLog::Drop(FrameKind stream, uint64_t bytes, std::string_view reason) {
  dropped_bytes_ += bytes;
  (stream == FrameKind::kStderr ? gap_.stderr_bytes : gap_.stdout_bytes) += bytes;
  if (drop_reason_.empty()) drop_reason_ = reason;
}

// Makes sure that `bytes` more can be written. False, with errno, when the file system refuses.
bool RankLog::Reserve(uint64_t bytes) {
  if (!EnsureFile()) return false;
  if (!reserving_works_ || size_bytes_ + bytes <= reserved_bytes_) return true;
  // Grows with the log, so that short logs stay small and long ones need few calls.
  const uint64_t generous =
      std::max(bytes, std::clamp(size_bytes_, kFirstReserveBytes, kMostReserveBytes));
  for (const uint64_t step : {generous, bytes}) {
    int result = 0;
    do {
      result = ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(size_bytes_),
                           static_cast<off_t>(step));
    } while (result != 0 && errno == EINTR);
    if (result == 0) {
      reserved_bytes_ = size_bytes_ + step;
      return true;
    }
    if (errno == EOPNOTSUPP || errno == ENOSYS) {
      reserving_works_ = false;
      return true;
    }
  }
  return false;
}

// Appends parts of the file. True: all is written, or will be (see `rest_`). False, with errno,
// when nothing was written and nothing will be. `payload_bytes`: output in the parts.
bool RankLog::WriteFrames(iovec* parts, int count, uint64_t payload_bytes) {
  uint64_t total = 0;
  for (int i = 0; i < count; ++i) total += parts[i].iov_len;
  ssize_t done = 0;
  do {
    done = ::pwritev(fd_.get(), parts, count, static_cast<off_t>(size_bytes_));
  } while (done < 0 && errno == EINTR);
  if (done == static_cast<ssize_t>(total)) {
    size_bytes_ += total;
    return true;
  }
  if (done <= 0) {
    if (done == 0) errno = ENOSPC;
    return false;
  }
  // Cut: readers may have seen the beginning, so the rest must follow, whenever that is possible.
  size_bytes_ += static_cast<uint64_t>(done);
  auto skip = static_cast<size_t>(done);
  for (int i = 0; i < count; ++i) {
    const std::string_view part(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
    const size_t skipped = std::min(skip, part.size());
    rest_.append(part.substr(skipped));
    skip -= skipped;
  }
  rest_payload_bytes_ = payload_bytes;
  return WriteRest();
}

// Completes a cut frame. True when none is left.
bool RankLog::WriteRest() {
  while (!rest_.empty()) {
    const ssize_t done =
        ::pwrite(fd_.get(), rest_.data(), rest_.size(), static_cast<off_t>(size_bytes_));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    size_bytes_ += static_cast<uint64_t>(done);
    rest_.erase(0, static_cast<size_t>(done));
  }
  rest_.shrink_to_fit();
  rest_payload_bytes_ = 0;
  return true;
}

bool RankLog::WriteGap(int64_t time_ns) {
  std::string frame = CountersFrame(FrameKind::kGap, time_ns, EncodeFrameGap(gap_));
  iovec part = {frame.data(), frame.size()};
  const bool written = WriteFrames(&part, 1, 0);
  if (written || !rest_.empty()) gap_ = {};
  return written;
}

void RankLog::Retry(int64_t time_ns, SteadyTime now) {
  if (now < blocked_until_ || !HasBacklog()) return;
  // A gap frame is due when output could follow it; before that it would only be followed by
  // another.
  const bool over_quota =
      quota_bytes_ != 0 && size_bytes_ + kCountersFrameBytes > committed_bytes_ + quota_bytes_;
  const bool no_room =
      size_bytes_ + kCountersFrameBytes + kFrameHeaderBytes + kTailBytes > file_size_limit_;
  if (!WriteRest()) {
    blocked_until_ = now + kRetryAfter;
  } else if (HasGap() && !over_quota && !no_room) {
    if (!Reserve(kCountersFrameBytes + kTailBytes + kFirstReserveBytes) || !WriteGap(time_ns)) {
      blocked_until_ = now + kRetryAfter;
    }
  }
}

void RankLog::Commit(uint64_t size) {
  committed_bytes_ = std::max(committed_bytes_, std::min(size, size_bytes_));
  const uint64_t whole = committed_bytes_ / kPunchAlignment * kPunchAlignment;
  if (whole < punched_bytes_ + kPunchStepBytes) return;
  // Where the file system cannot do this, the file only takes more room.
  (void)::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(punched_bytes_), static_cast<off_t>(whole - punched_bytes_));
  punched_bytes_ = whole;
}

void RankLog::Close(int64_t time_ns) {
  if (written_bytes_ > 0 && EnsureFile() && WriteRest() && (!HasGap() || WriteGap(time_ns))) {
    std::string frame =
        CountersFrame(FrameKind::kEnd, time_ns, EncodeFrameEnd({written_bytes_, dropped_bytes_}));
    iovec part = {frame.data(), frame.size()};
    (void)WriteFrames(&part, 1, 0);
  }
  if (!rest_.empty()) {
    // A frame that stays cut is not read by anybody.
    dropped_bytes_ += rest_payload_bytes_;
    rest_.clear();
  }
  gap_ = {};
  // Gives the blocks behind the end back; the size stays.
  if (reserved_bytes_ > size_bytes_) (void)!::ftruncate(fd_.get(), static_cast<off_t>(size_bytes_));
  fd_.Reset();
}

}  // namespace muster::shim
