#include "tests/fuzz/log_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "common/io/log_frame.h"
#include "common/io/record_log.h"
#include "coordinator/logs/control_sequences.h"
#include "coordinator/logs/line_assembler.h"
#include "coordinator/logs/log_filter.h"

namespace muster {
namespace {

// Calls `take` with pieces of `text` whose sizes follow from `seed`.
void Chunks(std::string_view text, unsigned char seed,
            const std::function<void(std::string_view)>& take) {
  uint32_t state = seed + 1u;
  while (!text.empty()) {
    state = state * 1664525u + 1013904223u;
    const size_t size = std::min<size_t>(text.size(), (state >> 16) % (seed + 1u) + 1);
    take(text.substr(0, size));
    text.remove_prefix(size);
  }
}

struct Decoded {
  // What was decoded, encoded again.
  std::string bytes;
  uint64_t offset = 0;
  bool corrupt = false;
  bool ended = false;
  friend bool operator==(const Decoded&, const Decoded&) = default;
};

// Frames are taken after every chunk, or only when everything was fed.
Decoded Decode(std::string_view text, unsigned char seed, bool at_once) {
  FrameReader reader;
  Decoded decoded;
  const auto drain = [&] {
    while (const std::optional<Frame> frame = reader.Next()) {
      AppendFrame(decoded.bytes, frame->kind, frame->time_ns, frame->payload);
    }
  };
  Chunks(text, seed, [&](std::string_view chunk) {
    reader.Feed(chunk);
    if (at_once) drain();
  });
  drain();
  decoded.offset = reader.offset();
  decoded.corrupt = reader.corrupt();
  decoded.ended = reader.ended();
  return decoded;
}

std::string Label(std::string_view text, ControlSequences mode, unsigned char seed, bool in_chunks,
                  size_t max_line_bytes) {
  LineAssembler lines(
      {.prefix = "[0@n] ", .control_sequences = mode, .max_line_bytes = max_line_bytes});
  std::string out;
  if (in_chunks) {
    Chunks(text, seed, [&](std::string_view chunk) { lines.Add(LogStream::kStdout, chunk, &out); });
  } else {
    lines.Add(LogStream::kStdout, text, &out);
  }
  lines.Finish(&out);
  return out;
}

std::string CheckLines(std::string_view out) {
  while (!out.empty()) {
    const size_t end = out.find('\n');
    if (end == std::string_view::npos) return "a line without end";
    if (out.substr(0, 6) != "[0@n] ") return "a line without label";
    out.remove_prefix(end + 1);
  }
  return {};
}

// Makes a frame file of a script: for each frame a byte for its kind, one for its size, its text.
std::string FramesOf(std::string_view script) {
  std::string file;
  int64_t time_ns = 0;
  while (script.size() >= 2) {
    const auto kind = static_cast<FrameKind>(static_cast<unsigned char>(script[0]) % 5 + 1);
    const size_t size = static_cast<unsigned char>(script[1]);
    std::string payload(script.substr(2, size));
    script.remove_prefix(2 + payload.size());
    if (kind == FrameKind::kGap || kind == FrameKind::kEnd) payload.resize(kFrameCountersBytes);
    if (kind == FrameKind::kHole) payload.resize(payload.size() + kFrameCountersBytes);
    AppendFrame(file, kind, ++time_ns, payload);
  }
  return file;
}

LogFilterOptions FilterOptions(unsigned char choice) {
  static const LinePattern pattern = *LinePattern::Make("^a|b$|\\x00");
  LogFilterOptions options;
  options.want_stdout = (choice & 1) == 0;
  options.want_stderr = (choice & 2) == 0;
  options.whole_lines = (choice & 4) != 0;
  if (options.whole_lines && (choice & 8) != 0) options.pattern = pattern;
  options.since_ns = choice >> 4;
  return options;
}

// What is wrong with the filtered file of `file`; empty: nothing.
std::string CheckFilter(std::string_view file, const LogFilterOptions& options,
                        unsigned char seed) {
  LogFilter at_once(options, {});
  std::string whole;
  at_once.Add(file, &whole);
  LogFilter cut(options, {});
  std::string pieces;
  Chunks(file, seed, [&](std::string_view piece) { cut.Add(piece, &pieces); });
  if (pieces != whole) return "what passes depends on how it is cut";
  if (at_once.position() != whole.size()) return "the position is not what was given";
  if (at_once.damaged_at() != cut.damaged_at()) return "damage depends on how it is cut";
  LogFilter later(options, {.skipped_to = whole.size() / 2});
  std::string rest;
  later.Add(file, &rest);
  if (rest != whole.substr(whole.size() / 2)) return "it cannot be gone on with";
  at_once.Finish(&whole);
  FrameReader reader;
  reader.Feed(whole);
  while (reader.Next()) continue;
  return reader.corrupt() || reader.partial_bytes() > 0 ? "it makes no frame file" : "";
}

}  // namespace

std::string FuzzLogFilter(std::string_view bytes) {
  if (bytes.size() < 2) return {};
  const auto seed = static_cast<unsigned char>(bytes[0]);
  const LogFilterOptions options = FilterOptions(static_cast<unsigned char>(bytes[1]));
  bytes.remove_prefix(2);
  const std::string file = FramesOf(bytes);
  for (const std::string& log : {file, std::string(bytes), file + std::string(bytes)}) {
    if (std::string problem = CheckFilter(log, options, seed); !problem.empty()) return problem;
  }
  return {};
}

std::string FuzzLogFrames(std::string_view bytes) {
  if (bytes.empty()) return {};
  const auto seed = static_cast<unsigned char>(bytes[0]);
  const std::string_view text = bytes.substr(1);
  const Decoded late = Decode(text, seed, /*at_once=*/false);
  if (late.bytes != text.substr(0, late.bytes.size())) return "frames differ from their bytes";
  if (late.offset != late.bytes.size()) return "the offset is not what was decoded";
  return late == Decode(text, seed, /*at_once=*/true) ? "" : "it depends on when frames are taken";
}

std::string FuzzRecordLog(std::string_view bytes) {
  std::string_view rest = bytes;
  std::string again;
  while (const std::optional<std::string_view> record = TakeRecord(rest)) {
    if (record->empty() || record->size() > kMaxRecordBytes) return "a record of a wrong size";
    AppendRecord(again, *record);
  }
  if (again.size() + rest.size() != bytes.size()) return "bytes lost";
  if (bytes.substr(0, again.size()) != again) return "records differ from their bytes";
  // The same bytes as a payload survive.
  if (bytes.empty()) return {};
  std::string own;
  AppendRecord(own, bytes);
  std::string_view view = own;
  const std::optional<std::string_view> record = TakeRecord(view);
  return record == bytes && view.empty() ? "" : "a record does not survive";
}

std::string FuzzLabelledLines(std::string_view bytes) {
  if (bytes.empty()) return {};
  const auto seed = static_cast<unsigned char>(bytes[0]);
  const std::string_view text = bytes.substr(1);
  const size_t limit = seed % 2 == 0 ? 16 : size_t{64} << 10;
  for (const ControlSequences mode :
       {ControlSequences::kKeep, ControlSequences::kColourOnly, ControlSequences::kNone}) {
    const std::string whole = Label(text, mode, seed, false, limit);
    if (whole != Label(text, mode, seed, true, limit)) {
      return fmt::format("in chunks it looks otherwise, mode {}", static_cast<int>(mode));
    }
    if (std::string problem = CheckLines(whole); !problem.empty()) return problem;
    if (mode == ControlSequences::kNone && HasControls(whole)) return "a control character is left";
    // Without carriage returns nothing is overwritten: every byte is there.
    if (mode != ControlSequences::kKeep || limit == 16) continue;
    if (text.find('\r') != std::string_view::npos) continue;
    std::string expected;
    for (std::string_view rest = text; !rest.empty();) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      expected += fmt::format("[0@n] {}\n", rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (text.size() < limit && whole != expected) return "lines differ from what was written";
  }
  return {};
}

std::vector<FuzzTarget> LogFuzzTargets() {
  return {{"log_frames", FuzzLogFrames},
          {"record_log", FuzzRecordLog},
          {"labelled_lines", FuzzLabelledLines},
          {"log_filter", FuzzLogFilter}};
}

}  // namespace muster
