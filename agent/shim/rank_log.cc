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
// How finely old output is dropped under a small quota.
constexpr uint64_t kSegmentsPerQuota = 16;
// A full disk is given this much more than is needed at once: others want room, too.
constexpr uint64_t kSpareBytes = uint64_t{1} << 20;

bool IsFull(int error) { return error == ENOSPC || error == EDQUOT; }

// Gives blocks back; false where the file system cannot.
bool Punch(int fd, uint64_t offset, uint64_t bytes) {
  int result = 0;
  do {
    result = ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                         static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

bool WriteAll(int fd, std::string_view bytes, uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(done));
    offset += static_cast<uint64_t>(done);
  }
  return true;
}

std::string QuotaReason(uint64_t quota_bytes) {
  return "more than the quota of " + std::to_string(quota_bytes) +
         " bytes wait for the coordinator";
}

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
  if (quota_bytes != 0) segments_.SetSegmentBytes(quota_bytes / kSegmentsPerQuota);
}

uint64_t RankLog::fixed_bytes() const {
  const uint64_t head = quota_bytes_ == 0 ? kHeadBytes : std::min(kHeadBytes, quota_bytes_ / 2);
  return committed_bytes_ + std::max<uint64_t>(head, 1);
}

// What counts for the quota.
uint64_t RankLog::HeldBytes() const {
  return size_bytes_ - committed_bytes_ - holes_.SavedBehind(committed_bytes_);
}

bool RankLog::HasHoles() {
  if (!has_holes_ && fd_) {
    // Far behind the end, where nothing is lost.
    const uint64_t nowhere = std::max(size_bytes_, reserved_bytes_) + kMostReserveBytes;
    has_holes_ = Punch(fd_.get(), nowhere, 1);
  }
  return has_holes_.value_or(false);
}

// Makes a hole of the oldest frames that may change. The bytes given back; 0 when there are none.
uint64_t RankLog::DropOldest(std::string_view reason) {
  segments_.Forget(fixed_bytes());
  if (!HasHoles()) return 0;
  const std::optional<LogSegment> oldest = segments_.TakeOldest(/*last=*/rest_.empty());
  if (!oldest) return 0;
  const auto header =
      EncodeFrameHeader({FrameKind::kHole, static_cast<uint32_t>(oldest->bytes - kFrameHeaderBytes),
                         oldest->time_ns});
  const auto counters = EncodeFrameGap({oldest->stdout_bytes + oldest->gap.stdout_bytes,
                                        oldest->stderr_bytes + oldest->gap.stderr_bytes});
  std::string beginning(header.data(), header.size());
  beginning.append(counters.data(), counters.size());
  // Nothing is written where nothing was, so this does not fail for want of room.
  if (!WriteAll(fd_.get(), beginning, oldest->begin)) return 0;
  dropped_bytes_ += uint64_t{oldest->stdout_bytes} + oldest->stderr_bytes;
  if (drop_reason_.empty()) drop_reason_ = reason;
  holes_.Add(*oldest);
  if (oldest->bytes > beginning.size()) {
    (void)Punch(fd_.get(), oldest->begin + beginning.size(), oldest->bytes - beginning.size());
  }
  return oldest->bytes;
}

// Makes holes until `bytes` more are within the quota; false when they are not.
bool RankLog::FitQuota(uint64_t bytes) {
  if (quota_bytes_ == 0 || HeldBytes() + bytes <= quota_bytes_) return true;
  // What never fits is not worth anything else.
  if (fixed_bytes() - committed_bytes_ + bytes > quota_bytes_) return false;
  const std::string reason = QuotaReason(quota_bytes_);
  while (HeldBytes() + bytes > quota_bytes_) {
    if (DropOldest(reason) == 0) return false;
  }
  return true;
}

// Reserve, with holes made where the disk is full.
bool RankLog::MakeRoom(uint64_t bytes) {
  if (Reserve(bytes)) return true;
  const int error = errno;
  uint64_t given_back = 0;
  while (IsFull(errno) && given_back < bytes + kSpareBytes) {
    const uint64_t more = DropOldest(ErrnoText(error));
    if (more == 0) break;
    given_back += more;
    if (Reserve(bytes)) return true;
  }
  errno = error;
  return false;
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
  if (!FitQuota(header_bytes + kept.size())) {
    return Drop(stream, bytes.size(), QuotaReason(quota_bytes_));
  }
  if (!MakeRoom(header_bytes + kept.size() + kTailBytes)) {
    blocked_until_ = now + kRetryAfter;
    return Drop(stream, bytes.size(), ErrnoText(errno));
  }

  std::string gap_frame;
  if (HasGap()) gap_frame = CountersFrame(FrameKind::kGap, time_ns, EncodeFrameGap(gap_));
  auto header = EncodeFrameHeader({stream, static_cast<uint32_t>(kept.size()), time_ns});
  iovec parts[3];
  int count = 0;
  const uint64_t begin = size_bytes_;
  if (!gap_frame.empty()) parts[count++] = {gap_frame.data(), gap_frame.size()};
  parts[count++] = {header.data(), header.size()};
  parts[count++] = {const_cast<char*>(kept.data()), kept.size()};
  if (!WriteFrames(parts, count, kept.size())) {
    blocked_until_ = now + kRetryAfter;
    if (rest_.empty()) return Drop(stream, bytes.size(), ErrnoText(errno));
  }
  if (!gap_frame.empty()) NoteGapFrame(begin, time_ns);
  LogSegment frame{.begin = begin + gap_frame.size(),
                   .bytes = static_cast<uint32_t>(kFrameHeaderBytes + kept.size()),
                   .time_ns = time_ns};
  (stream == FrameKind::kStderr ? frame.stderr_bytes : frame.stdout_bytes) =
      static_cast<uint32_t>(kept.size());
  segments_.Add(frame);
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
  const uint64_t begin = size_bytes_;
  const bool written = WriteFrames(&part, 1, 0);
  if (written || !rest_.empty()) NoteGapFrame(begin, time_ns);
  return written;
}

// The gap is told by a frame at `begin`.
void RankLog::NoteGapFrame(uint64_t begin, int64_t time_ns) {
  segments_.Add({.begin = begin,
                 .bytes = static_cast<uint32_t>(kCountersFrameBytes),
                 .gap = std::exchange(gap_, {}),
                 .time_ns = time_ns});
}

void RankLog::Retry(int64_t time_ns, SteadyTime now) {
  if (now < blocked_until_ || !HasBacklog()) return;
  // A gap frame is due when output could follow it; before that it would only be followed by
  // another.
  const bool over_quota = quota_bytes_ != 0 && HeldBytes() + kCountersFrameBytes > quota_bytes_;
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
  segments_.Forget(fixed_bytes());
  holes_.Forget(committed_bytes_);
  // Whoever looks where the file begins must find data there. The padding of holes is none, but the
  // beginning of each is.
  const uint64_t margin = holes_.any() ? LogSegments::kMostBytes + kPunchAlignment : 0;
  const uint64_t whole =
      (committed_bytes_ - std::min(committed_bytes_, margin)) / kPunchAlignment * kPunchAlignment;
  if (whole < punched_bytes_ + kPunchStepBytes) return;
  // Where the file system cannot do this, the file only takes more room.
  (void)Punch(fd_.get(), punched_bytes_, whole - punched_bytes_);
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
