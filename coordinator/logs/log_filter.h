// Makes a filtered frame file of a frame file: bytes of frames in, bytes of frames out. What it
// makes depends on the frames alone, not on how they are cut into pieces, and what was made never
// changes when more comes; so positions in the filtered file are good for going on later. For one
// log and one thread at a time; does no I/O. Memory: one frame, and kMaxLineBytes for each stream.
//
// Rules: see ReadLogsRequest in proto/muster/v1/job.proto.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/io/log_frame.h"
#include "coordinator/logs/carriage_return.h"
#include "coordinator/logs/hole_merger.h"
#include "coordinator/logs/line_pattern.h"

namespace muster {

struct LogFilterOptions {
  bool want_stdout = true;
  bool want_stderr = true;
  // Earlier frames, or lines that ended earlier, are left out; nanoseconds since 1970.
  int64_t since_ns = INT64_MIN;
  // Needs `whole_lines`.
  std::optional<LinePattern> pattern;
  // Choose lines, not frames.
  bool whole_lines = false;
};

class LogFilter {
 public:
  // Where to begin. Both leave out what was in front, as if it had been sent.
  struct Start {
    // Lines that pass and are not given.
    uint64_t skipped_lines = 0;
    // Nothing in front of this position of the filtered file is given.
    uint64_t skipped_to = 0;
  };

  LogFilter(LogFilterOptions options, Start start);

  // Takes the next bytes of the log, cut anywhere, and appends frames to `out`.
  void Add(std::string_view bytes, std::string* out);
  // The same for `bytes` bytes that are 0.
  void AddZeros(uint64_t bytes, std::string* out);
  // Appends the text of lines that have not ended: the log goes no further for now.
  void Finish(std::string* out);

  // Position behind what was given, or left out by `Start`, Finish apart.
  uint64_t position() const { return position_; }
  // Lines that have passed, those of `Start` included; only with `whole_lines`.
  uint64_t lines() const { return lines_; }
  // Position in the log of what is no frame; nothing behind it is looked at.
  std::optional<uint64_t> damaged_at() const { return damaged_at_; }

 private:
  // The unfinished line of one stream.
  struct Held {
    std::string text;
    // It is too long: its first part was cut off, and matched with the pattern.
    bool continued = false;
    bool matches = false;
  };

  // The frame that text goes into.
  struct Target {
    FrameKind kind;
    int64_t time_ns;
    std::string* out;
  };

  void TakeFrames(std::string* out);
  void Take(const Frame& frame, std::string* out);
  void TakeText(std::string_view text, const Target& target);
  void HoldText(Held& held, std::string_view text, const Target& target);
  void EndLine(Held& held, std::string_view line, const Target& target);
  void EndHeld(bool count, std::string* out);
  void TellHole(std::string* out);
  bool Passes(const Held& held, std::string_view line, int64_t time_ns) const;
  bool Matches(std::string_view line) const;
  // `text` passes; `lines`: how many end with it.
  void Collect(std::string_view text, uint64_t lines, const Target& target);
  void EmitCollected(const Target& target);
  void Emit(const Target& target, std::string_view payload);
  // Makes the time of the newest frame known where that was left out.
  void TellTime(std::string* out);

  const LogFilterOptions options_;
  const Start start_;
  FrameReader reader_;
  Held held_[2];
  uint64_t position_ = 0;
  uint64_t lines_ = 0;
  std::optional<uint64_t> damaged_at_;
  // Time of the newest frame of the log, and of the newest that was given.
  int64_t log_time_ns_ = 0;
  int64_t given_time_ns_ = 0;
  // Holes that were not given yet.
  HoleMerger holes_;
  // Text for one frame; of it, what `Start` leaves out.
  std::string collected_;
  size_t skipped_bytes_ = 0;
};

}  // namespace muster
