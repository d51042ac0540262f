#include "coordinator/logs/log_filter.h"

#include <utility>

namespace muster {
namespace {

// Collected text becomes a frame when there is more of it, so that a frame and one more line never
// exceed what a frame may hold.
constexpr size_t kCollectedBytes = size_t{128} << 10;
static_assert(kCollectedBytes + kMaxLineBytes + 1 <= kMaxFramePayloadBytes);

size_t IndexOf(FrameKind kind) { return kind == FrameKind::kStdout ? 0 : 1; }

}  // namespace

LogFilter::LogFilter(LogFilterOptions options, Start start)
    : options_(std::move(options)), start_(start) {}

void LogFilter::Add(std::string_view bytes, std::string* out) {
  if (damaged_at_.has_value()) return;
  reader_.Feed(bytes);
  TakeFrames(out);
}

void LogFilter::AddZeros(uint64_t bytes, std::string* out) {
  while (bytes > 0 && !damaged_at_.has_value()) {
    bytes -= reader_.FeedZeros(bytes);
    TakeFrames(out);
  }
}

void LogFilter::TakeFrames(std::string* out) {
  while (const std::optional<Frame> frame = reader_.Next()) Take(*frame, out);
  if (!reader_.corrupt()) return;
  TellHole(out);
  EndHeld(/*count=*/true, out);
  if (!reader_.ended()) TellTime(out);
  damaged_at_ = reader_.offset();
}

void LogFilter::Finish(std::string* out) {
  if (reader_.ended() || damaged_at_.has_value()) return;
  const uint64_t position = position_;
  TellHole(out);
  EndHeld(/*count=*/false, out);
  TellTime(out);
  position_ = position;
}

void LogFilter::Take(const Frame& frame, std::string* out) {
  if (holes_.Take(frame)) return;
  TellHole(out);
  log_time_ns_ = frame.time_ns;
  const Target target{frame.kind, frame.time_ns, out};
  if (frame.kind == FrameKind::kStdout || frame.kind == FrameKind::kStderr) {
    TakeText(frame.payload, target);
  } else {
    EndHeld(/*count=*/true, out);
    Emit(target, frame.payload);
  }
}

void LogFilter::TellHole(std::string* out) {
  const std::optional<HoleMerger::Hole> hole = holes_.Tell();
  if (!hole.has_value()) return;
  log_time_ns_ = hole->time_ns;
  EndHeld(/*count=*/true, out);
  const auto payload = EncodeFrameGap(hole->dropped);
  Emit({FrameKind::kGap, hole->time_ns, out}, {payload.data(), payload.size()});
}

void LogFilter::TakeText(std::string_view text, const Target& target) {
  if (!(target.kind == FrameKind::kStdout ? options_.want_stdout : options_.want_stderr)) return;
  if (!options_.whole_lines) {
    if (target.time_ns >= options_.since_ns) Emit(target, text);
    return;
  }
  Held& held = held_[IndexOf(target.kind)];
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      HoldText(held, text, target);
      break;
    }
    EndLine(held, text.substr(0, end), target);
    text.remove_prefix(end + 1);
  }
  EmitCollected(target);
}

void LogFilter::HoldText(Held& held, std::string_view text, const Target& target) {
  while (HoldLine(text, kMaxLineBytes, held.text)) {
    if (!std::exchange(held.continued, true)) held.matches = Matches(held.text);
    if (Passes(held, held.text, target.time_ns)) Collect(held.text, 1, target);
    held.text.clear();
  }
}

void LogFilter::EndLine(Held& held, std::string_view line, const Target& target) {
  if (!held.text.empty() || held.continued || line.size() > kMaxLineBytes) {
    HoldText(held, line, target);
    line = held.text;
  }
  if (Passes(held, line, target.time_ns)) {
    // The end of a line that was cut exactly there is no line of its own.
    const bool counts = !held.continued || !line.empty();
    Collect(line, 0, target);
    Collect("\n", counts ? 1 : 0, target);
  }
  held.text.clear();
  held.continued = false;
}

void LogFilter::EndHeld(bool count, std::string* out) {
  for (const FrameKind kind : {FrameKind::kStdout, FrameKind::kStderr}) {
    Held& held = held_[IndexOf(kind)];
    const Target target{kind, log_time_ns_, out};
    // A lone carriage return shows nothing: nobody takes it for a line.
    if (!NewestState(held.text).empty() && Passes(held, held.text, log_time_ns_)) {
      Collect(held.text, count ? 1 : 0, target);
    }
    EmitCollected(target);
    held = {};
  }
}

bool LogFilter::Passes(const Held& held, std::string_view line, int64_t time_ns) const {
  return time_ns >= options_.since_ns && (held.continued ? held.matches : Matches(line));
}

bool LogFilter::Matches(std::string_view line) const {
  return !options_.pattern.has_value() || options_.pattern->Matches(line);
}

void LogFilter::Collect(std::string_view text, uint64_t lines, const Target& target) {
  if (collected_.size() > kCollectedBytes) EmitCollected(target);
  collected_.append(text);
  const bool skipped = lines_ < start_.skipped_lines;
  lines_ += lines;
  if (skipped) skipped_bytes_ = collected_.size();
}

void LogFilter::EmitCollected(const Target& target) {
  if (!collected_.empty()) Emit(target, collected_);
  collected_.clear();
  skipped_bytes_ = 0;
}

void LogFilter::Emit(const Target& target, std::string_view payload) {
  position_ += kFrameHeaderBytes + payload.size();
  if (collected_.empty() ? lines_ < start_.skipped_lines : skipped_bytes_ == payload.size()) return;
  if (position_ <= start_.skipped_to) return;
  given_time_ns_ = target.time_ns;
  const size_t frame = target.out->size();
  AppendFrame(*target.out, target.kind, target.time_ns, payload.substr(skipped_bytes_));
  const uint64_t begin = position_ - (target.out->size() - frame);
  if (begin < start_.skipped_to) target.out->erase(frame, start_.skipped_to - begin);
}

void LogFilter::TellTime(std::string* out) {
  if (!options_.whole_lines || log_time_ns_ == given_time_ns_) return;
  Emit({FrameKind::kStdout, log_time_ns_, out}, {});
}

}  // namespace muster
