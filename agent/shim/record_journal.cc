#include "agent/shim/record_journal.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "agent/shim/text.h"

namespace muster::shim {
namespace {

constexpr uint64_t kBaseBytes = uint64_t{16} << 10;
constexpr uint64_t kBytesPerRank = uint64_t{1} << 10;
// A failure must reach the user soon, however slow the disk: records are safe from a crash of the
// shim once they are written, and only a power loss at this very moment could take them.
constexpr milliseconds kSyncTime{150};
// An attempt as short as this ends sooner when it syncs by itself: a process that has used the
// kernel's asynchronous I/O takes tens of milliseconds to exit (it waits for an RCU grace period).
constexpr milliseconds kBackgroundAfter{2000};

}  // namespace

std::string RecordJournal::Open(const std::string& path, size_t ranks, Poller& poller) {
  RecordLogEnd end;
  if (const std::error_code error = log_.Open(path, end)) {
    return "cannot open " + path + ": " + ErrnoText(error.value());
  }
  if (end.records != 0) return path + " has records: this attempt was begun before";
  // Best effort: on a disk that is full already the records are told from memory.
  if (const std::error_code error = log_.Preallocate(kBaseBytes + ranks * kBytesPerRank)) {
    Complain("cannot reserve room for events.rec", error.value());
  }
  poller_ = &poller;
  opened_ = std::chrono::steady_clock::now();
  return "";
}

void RecordJournal::Add(internal::ShimRecord record, bool durable) {
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  record.set_index(next_index());
  record.set_time_ns(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
  if (durable && !never_sync_) unsynced_.push_back(record.index());
  std::string bytes = record.SerializeAsString();
  AppendRecord(unwritten_, bytes);
  records_.push_back(std::move(bytes));
}

void RecordJournal::Flush(SteadyTime now) {
  Write();
  flushed_ = records_.size();
  if (sync_deadline_ && now >= *sync_deadline_) {
    Complain("the disk of events.rec takes its time, not waiting for it", 0);
    sync_deadline_.reset();
    unsynced_.clear();
  }
  if (unsynced_.empty()) return;
  if (sync_.running()) {
    // One that is overdue already: what comes meanwhile does not wait for it either.
    if (!sync_deadline_) unsynced_.clear();
    return;
  }
  // One sync for all records of a turn of the loop.
  if (!StartBackgroundSync(now)) OnSynced(flushed_, log_.Sync().value());
}

bool RecordJournal::StartBackgroundSync(SteadyTime now) {
  if (now - opened_ < kBackgroundAfter) return false;
  if (background_ == Background::kNotYet) {
    background_ = sync_.Open(*poller_) ? Background::kWorks : Background::kImpossible;
  }
  if (background_ == Background::kImpossible) return false;
  const uint64_t last = flushed_;
  const auto done = [this, last](int error_number) { OnSynced(last, error_number); };
  if (!sync_.Start(log_.fd(), done)) return false;
  sync_deadline_ = now + kSyncTime;
  return true;
}

uint64_t RecordJournal::flushed_index() const {
  return unsynced_.empty() ? flushed_ + 1 : std::min(flushed_ + 1, unsynced_.front());
}

void RecordJournal::Write() {
  if (unwritten_.empty()) return;
  if (const std::error_code error = log_.AppendEncoded(unwritten_)) {
    Complain("cannot write events.rec, going on without", error.value());
  } else {
    unwritten_.clear();
  }
}

void RecordJournal::OnSynced(uint64_t last_index, int error_number) {
  sync_deadline_.reset();
  while (!unsynced_.empty() && unsynced_.front() <= last_index) unsynced_.pop_front();
  if (error_number != 0) Complain("cannot sync events.rec", error_number);
}

void RecordJournal::Complain(std::string_view what, int error_number) {
  if (std::exchange(complained_, true)) return;
  std::string text(what);
  if (error_number != 0) text += ": " + ErrnoText(error_number);
  shim::Complain(text);
}

}  // namespace muster::shim
