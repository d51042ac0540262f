// The log file of one rank: frames (common/io/log_frame.h) appended by the shim, read by the agent
// at any time. Storing never fails and never waits: what cannot be stored is dropped, counted, and
// told by a gap frame as soon as that can be written. The file never shrinks; a frame that was cut
// by an error is kept in memory and completed later. Single-threaded.
//
// What is dropped: the log keeps what is committed, kHeadBytes behind that, and the newest output.
// When the quota or the disk is full, the oldest frames between the two become holes: the beginning
// of a run of frames is overwritten with the header of one hole frame and what it drops, and the
// blocks of the rest are given back; each hole keeps a block. Only where nothing can become a hole
// (little output, a file system without holes) is new output dropped.
//
// What never changes: the first fixed_bytes() of the file, which only grow. The agent is told that
// number and reads nothing behind it, so it never sends what becomes a hole; holes and the frames
// around them are sent as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "agent/shim/log_segments.h"
#include "agent/shim/poller.h"
#include "common/io/log_frame.h"
#include "common/io/unique_fd.h"

struct iovec;

namespace muster::shim {

class RankLog {
 public:
  // What is kept behind the committed bytes, or half of the quota when that is less.
  static constexpr uint64_t kHeadBytes = uint64_t{64} << 20;

  // Logs to `path`, which must not exist; it is created with the first output, so a rank that
  // writes nothing has no file. `quota_bytes`: limit of bytes that are not committed, without those
  // of holes, 0 for none.
  // `file_size_limit`: RLIMIT_FSIZE of this process; the log ends properly below it.
  void Begin(std::string path, uint64_t quota_bytes, uint64_t file_size_limit);

  // Stores what was read from a stream, at most kMaxFramePayloadBytes, stamped `time_ns`; or drops
  // it.
  void Write(FrameKind stream, std::string_view bytes, int64_t time_ns, SteadyTime now);

  // Notes that the first `size` bytes of the file are stored elsewhere, and gives their blocks
  // back.
  void Commit(uint64_t size);

  // True while something waits to be written: a gap, or the rest of a frame. Then call Retry now
  // and then.
  bool HasBacklog() const { return !rest_.empty() || HasGap(); }
  void Retry(int64_t time_ns, SteadyTime now);

  // Writes what waits and the end frame, and gives reserved blocks back. When even that is
  // impossible the file ends with the last frame that could be written, and the totals below tell
  // the truth.
  void Close(int64_t time_ns);

  // So many bytes from the beginning never change any more, those that are not written yet
  // included.
  uint64_t fixed_bytes() const;
  uint64_t size_bytes() const { return size_bytes_; }
  // Bytes given to Write.
  uint64_t written_bytes() const { return written_bytes_; }
  // Bytes of those that are not in the file: never stored, or part of a hole now.
  uint64_t dropped_bytes() const { return dropped_bytes_; }
  // Why bytes were dropped first; empty: none were.
  const std::string& drop_reason() const { return drop_reason_; }

 private:
  bool HasGap() const { return gap_.stdout_bytes != 0 || gap_.stderr_bytes != 0; }
  void Drop(FrameKind stream, uint64_t bytes, std::string_view reason);
  uint64_t HeldBytes() const;
  bool HasHoles();
  uint64_t DropOldest(std::string_view reason);
  bool FitQuota(uint64_t bytes);
  bool MakeRoom(uint64_t bytes);
  bool EnsureFile();
  bool Reserve(uint64_t bytes);
  bool WriteRest();
  bool WriteFrames(iovec* parts, int count, uint64_t lost_if_cut);
  bool WriteGap(int64_t time_ns);
  void NoteGapFrame(uint64_t begin, int64_t time_ns);

  std::string path_;
  uint64_t quota_bytes_ = 0;
  uint64_t file_size_limit_ = UINT64_MAX;
  UniqueFd fd_;
  uint64_t size_bytes_ = 0;
  uint64_t committed_bytes_ = 0;
  uint64_t punched_bytes_ = 0;
  // Blocks are reserved up to here, so that a frame is begun only when it fits.
  uint64_t reserved_bytes_ = 0;
  bool reserving_works_ = true;
  // Whether the file system has holes, once that was tried.
  std::optional<bool> has_holes_;
  // What may be dropped, and what was.
  LogSegments segments_;
  LogHoles holes_;
  uint64_t written_bytes_ = 0;
  uint64_t dropped_bytes_ = 0;
  // Dropped since the last gap frame.
  FrameGap gap_;
  // End of a frame of which the file has the beginning, and its payload bytes, lost if it stays
  // cut.
  std::string rest_;
  uint64_t rest_payload_bytes_ = 0;
  // No attempt to write before this time, after one that failed.
  SteadyTime blocked_until_ = {};
  std::string drop_reason_;
};

}  // namespace muster::shim
