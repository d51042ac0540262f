#include "coordinator/logs/log_selection.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace muster {

LogSelection::LogSelection(LogFilterOptions options, Start start)
    : options_(std::move(options)), start_(start), next_(0) {
  if (!start_.last_lines.has_value()) {
    filter_.emplace(options_, LogFilter::Start{.skipped_to = start_.known});
    return;
  }
  counter_.emplace(options_,
                   LogFilter::Start{.skipped_lines = std::numeric_limits<uint64_t>::max()});
  if (next_ >= start_.stored) EndCounting();
}

void LogSelection::Take(std::string_view bytes, uint64_t zeros, std::string* out) {
  next_ += bytes.size() + zeros;
  const size_t before = out->size();
  LogFilter& filter = counting() ? *counter_ : *filter_;
  filter.Add(bytes, out);
  filter.AddZeros(zeros, out);
  if (!counting()) {
    if (next_ <= start_.offset) out->resize(before);
    if (out->size() != before) beginning_passed_ = true;
    return;
  }
  if (next_ == start_.offset) lines_before_ = counter_->lines();
  if (next_ >= start_.stored || counter_->damaged_at().has_value()) EndCounting();
}

bool LogSelection::PassBeginning() {
  if (counting() || next_ < std::max(start_.offset, start_.stored)) return false;
  return !std::exchange(beginning_passed_, true);
}

void LogSelection::EndCounting() {
  const uint64_t lines = counter_->lines();
  const uint64_t skipped = std::max(lines - std::min(lines, *start_.last_lines), lines_before_);
  filter_.emplace(options_, LogFilter::Start{.skipped_lines = skipped});
  counter_.reset();
  next_ = 0;
}

}  // namespace muster
