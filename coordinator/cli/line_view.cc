#include "coordinator/cli/line_view.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace muster {
namespace {

// Foreground colours that can be read on dark and on light backgrounds.
constexpr std::array<int, 6> kLabelColours = {36, 33, 32, 35, 34, 31};

}  // namespace

std::string RankLabel(uint32_t rank, std::string_view host, bool colour) {
  std::string label = LinePrefix(rank, host);
  if (!colour) return label;
  label.pop_back();  // the blank stays outside
  return fmt::format("\x1b[{}m{}\x1b[0m ", kLabelColours[rank % kLabelColours.size()], label);
}

LineView::LineView(Options options) : options_(std::move(options)), demux_(*this) {}

void LineView::Take(const v1::ReadLogsResponse& piece, std::string* out) {
  out_ = out;
  demux_.Take(piece);
}

bool LineView::TakeProgress(std::string* out) {
  if (options_.raw) return false;
  bool any = false;
  for (auto& [rank, lines] : lines_) {
    if (lines->holds_text()) any = lines->EmitProgress(out) || any;
  }
  return any;
}

void LineView::Finish(std::string* out) {
  for (auto& [rank, lines] : lines_) lines->Finish(out);
}

bool LineView::holds_text() const {
  for (const auto& [rank, lines] : lines_) {
    if (lines->holds_text()) return true;
  }
  return false;
}

void LineView::OnFrame(uint32_t rank, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::kStdout:
    case FrameKind::kStderr: {
      const LogStream stream =
          frame.kind == FrameKind::kStdout ? LogStream::kStdout : LogStream::kStderr;
      if (options_.raw) {
        out_->append(frame.payload);
      } else {
        LinesOf(rank).Add(stream, frame.payload, out_);
      }
      return;
    }
    case FrameKind::kGap:
    case FrameKind::kHole: {
      const std::optional<FrameGap> gap = DroppedBy(frame);
      if (!gap || frame.time_ns < options_.since_ns) return;
      if (options_.raw) {
        ++losses_;
        return;
      }
      LinesOf(rank).AddGap(gap->stdout_bytes, gap->stderr_bytes, out_);
      return;
    }
    case FrameKind::kEnd:
      return;
  }
}

void LineView::OnRankEnd(uint32_t rank, uint64_t missing_bytes) {
  if (const auto it = lines_.find(rank); it != lines_.end()) it->second->Finish(out_);
  missing_bytes_ += missing_bytes;
  if (missing_bytes > 0 && !options_.raw) {
    AddNote(rank, fmt::format("(muster: the last {} bytes of this rank's log never arrived)",
                              missing_bytes));
  }
}

void LineView::OnDamage(uint32_t rank, uint64_t offset) {
  AddNote(rank, fmt::format("(muster: the stored log is damaged at byte {}; the rest is left out)",
                            offset));
}

void LineView::OnNewAttempt(uint32_t rank) {
  if (const auto it = lines_.find(rank); it != lines_.end()) it->second->Finish(out_);
}

LineAssembler& LineView::LinesOf(uint32_t rank) {
  std::unique_ptr<LineAssembler>& lines = lines_[rank];
  if (lines == nullptr) {
    LineFormat format;
    format.prefix =
        RankLabel(rank, options_.host_of ? options_.host_of(rank) : "?", options_.colour);
    if (options_.terminal) {
      format.control_sequences =
          options_.colour ? ControlSequences::kColourOnly : ControlSequences::kNone;
    }
    lines = std::make_unique<LineAssembler>(std::move(format));
  }
  return *lines;
}

void LineView::AddNote(uint32_t rank, std::string_view text) {
  if (options_.raw) {
    ++losses_;
    return;
  }
  LineAssembler& lines = LinesOf(rank);
  lines.Finish(out_);
  lines.Add(LogStream::kStderr, text, out_);
  lines.Add(LogStream::kStderr, "\n", out_);
}

}  // namespace muster
