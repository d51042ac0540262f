// The attempt's records: numbered, kept in memory for replay, appended to events.rec. A record may
// be told to others only when flushed_index() has passed it: it is in the file then, and if it must
// survive a power loss it is on the disk. A disk that refuses, or takes its time, does not stop the
// attempt: the record is told all the same, and written as soon as that works. Single-threaded;
// never waits for the disk where the kernel can sync in the background.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/shim/file_sync.h"
#include "agent/shim/poller.h"
#include "common/io/record_log.h"
#include "muster/internal/shim.pb.h"

namespace muster::shim {

class RecordJournal {
 public:
  // Creates the file with blocks reserved for the records of `ranks` ranks. Empty on success, else
  // why not. A file that holds records is refused: the attempt was begun before, and must not be
  // begun twice.
  std::string Open(const std::string& path, size_t ranks, Poller& poller);
  // From here on no record need survive a power loss.
  void NeverSync() { never_sync_ = true; }

  // Numbers and stamps a record, and adds it. `durable`: it must survive a power loss before it is
  // told.
  void Add(internal::ShimRecord record, bool durable);

  // Writes what was added, and begins to sync when something of it must be durable. Call in every
  // turn of the loop, and at deadline().
  void Flush(SteadyTime now);
  // A sync that has not ended by then is not waited for any longer.
  std::optional<SteadyTime> deadline() const { return sync_deadline_; }
  // True when records wait that a failed Flush has left.
  bool HasBacklog() const { return !unwritten_.empty(); }

  // Index that the next record will have; the first is 1.
  uint64_t next_index() const { return records_.size() + 1; }
  // Records below this index may be told.
  uint64_t flushed_index() const;
  // The serialised record of an index below flushed_index().
  std::string_view Serialised(uint64_t index) const { return records_[index - 1]; }

 private:
  void Write();
  void OnSynced(uint64_t last_index, int error_number);
  void Complain(std::string_view what, int error_number);
  bool StartBackgroundSync(SteadyTime now);

  RecordLogWriter log_;
  Poller* poller_ = nullptr;
  SteadyTime opened_ = {};
  // Behind the file: destroyed first, it waits for what runs on it.
  enum class Background { kNotYet, kWorks, kImpossible } background_ = Background::kNotYet;
  FileSync sync_;
  std::vector<std::string> records_;
  // Last record that Flush has seen.
  uint64_t flushed_ = 0;
  // Indices of records that are not durable yet, but must be.
  std::deque<uint64_t> unsynced_;
  std::optional<SteadyTime> sync_deadline_;
  // Encoded records that are not in the file yet.
  std::string unwritten_;
  bool complained_ = false;
  bool never_sync_ = false;
};

}  // namespace muster::shim
