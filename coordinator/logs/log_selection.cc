#include "coordinator/logs/log_selection.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace muster {

LogSelection::LogSelection(LogFilterOptions options, Start start)
    : options_(std::move(options)), start_(start), next_(start.offset) {
  if (!start_.last_lines.has_value()) {
    filter_.emplace(options_,
                    LogFilter::Start{.offset = start_.offset, .skipped_to = start_.known});
    return;
  }
  counter_.emplace(options_,
                   LogFilter::Start{.offset = start_.offset,
                                    .skipped_lines = std::numeric_limits<uint64_t>::max()});
  if (next_ >= start_.stored) EndCounting();
}

void LogSelection::Take(std::string_view bytes, uint64_t zeros, std::string* out) {
  next_ += bytes.size() + zeros;
  LogFilter& filter = counting() ? *counter_ : *filter_;
  filter.Add(bytes, out);
  filter.AddZeros(zeros, out);
  if (!counting()) return;
  if (next_ >= start_.stored || counter_->damaged_at().has_value()) EndCounting();
}

void LogSelection::EndCounting() {
  const uint64_t lines = counter_->lines();
  const uint64_t skipped = lines - std::min(lines, *start_.last_lines);
  filter_.emplace(options_, LogFilter::Start{.offset = start_.offset, .skipped_lines = skipped});
  counter_.reset();
  next_ = start_.offset;
}

}  // namespace muster
