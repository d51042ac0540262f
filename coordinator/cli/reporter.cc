#include "coordinator/cli/reporter.h"

#include <fmt/format.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::string_view kPrefix = "muster: ";
constexpr size_t kPendingBytes = 1 << 20;

std::string Prefixed(std::string_view text) {
  std::string lines;
  while (true) {
    const size_t end = text.find('\n');
    lines += fmt::format("{}{}\n", kPrefix, text.substr(0, end));
    if (end == std::string_view::npos || end + 1 == text.size()) return lines;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

Reporter::Reporter(int fd) : terminal_(::isatty(fd) == 1), colour_(WantsColour(fd)), output_(fd) {}

void Reporter::Say(std::string_view text) {
  MutexLock lock(mutex_);
  Add(Prefixed(text));
}

void Reporter::Note(std::string_view text) {
  MutexLock lock(mutex_);
  if (!quiet_) Add(Prefixed(text));
}

void Reporter::Print(std::string_view text) {
  MutexLock lock(mutex_);
  Add(text);
}

void Reporter::Progress(std::string_view text) {
  if (!terminal_) return;
  MutexLock lock(mutex_);
  if (quiet_ || text == progress_) return;
  ClearProgress();
  progress_ = std::string(text);
  if (!text.empty()) pending_ += fmt::format("{}{}", kPrefix, text);
  Drain();
}

void Reporter::set_quiet(bool quiet) {
  MutexLock lock(mutex_);
  quiet_ = quiet;
}

bool Reporter::Retry() {
  MutexLock lock(mutex_);
  Drain();
  return pending_.empty();
}

void Reporter::Flush(std::chrono::milliseconds patience) {
  MutexLock lock(mutex_);
  ClearProgress();
  Drain();
  while (!pending_.empty() && output_.Wait(-1, patience)) {
    const size_t before = pending_.size();
    Drain();
    if (pending_.size() == before) return;
  }
}

void Reporter::Add(std::string_view text) {
  ClearProgress();
  if (pending_.size() + text.size() > kPendingBytes) {
    ++dropped_messages_;
    return;
  }
  pending_ += text;
  Drain();
}

void Reporter::Drain() {
  while (!pending_.empty()) {
    const ptrdiff_t written = output_.Write(pending_);
    // Closed for good: there is nobody left to tell.
    if (written < 0) pending_.clear();
    if (written <= 0) return;
    pending_.erase(0, static_cast<size_t>(written));
    if (pending_.empty() && dropped_messages_ > 0) {
      pending_ = fmt::format("{}{} messages were dropped because nobody read them\n", kPrefix,
                             dropped_messages_);
      dropped_messages_ = 0;
    }
  }
}

void Reporter::ClearProgress() {
  if (progress_.empty()) return;
  progress_.clear();
  pending_ += "\r\x1b[K";
}

}  // namespace muster
