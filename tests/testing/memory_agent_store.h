// An AgentStore in memory with the promises of the real one about crashes: `AgentDisk` is what
// survives the process. Records are kept as bytes, so that what is read back went through
// serialisation.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agent/core/agent_store.h"

namespace muster::testing {

// What is on the disk of one node.
struct AgentDisk {
  std::vector<std::string> records;
  // Number of journals begun so far; makes journal ids.
  int journals = 0;

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const std::string& record : records) sum += record.size() + 8;
    return sum;
  }
};

// What becomes of one write.
enum class Persist {
  kDone,
  kFails,  // an error, nothing written
  kLost,   // the process is dead, and the write did not happen
  kKept,   // the process is dead, and the write did happen
};

class MemoryAgentStore final : public AgentStore {
 public:
  // Asked before every write. Null: all succeed.
  using Hook = std::function<Persist()>;

  MemoryAgentStore(AgentDisk& disk, std::string node, Hook hook = {})
      : disk_(disk), node_(std::move(node)), hook_(std::move(hook)) {}

  absl::StatusOr<OpenedJournal> Open(const std::string& boot_id) override {
    AgentState state;
    std::string note;
    uint64_t epoch = 0;
    if (!disk_.records.empty()) {
      for (const std::string& bytes : disk_.records) {
        internal::JournalRecord record;
        if (!record.ParseFromString(bytes)) return absl::DataLossError("unreadable record");
        const absl::Status applied = ApplyRecord(state, record);
        if (!applied.ok()) return applied;
      }
      if (state.boot_id == boot_id) return OpenedJournal{std::move(state), ""};
      note = "another boot";
      epoch = state.epoch;
    }
    state = FreshState(fmt::format("{}-journal-{}", node_, ++disk_.journals), boot_id);
    state.epoch = epoch;
    disk_.records = {SnapshotOf(state).SerializeAsString()};
    return OpenedJournal{std::move(state), note};
  }

  absl::Status Append(const internal::JournalRecord& record) override {
    return Write([&] { disk_.records.push_back(record.SerializeAsString()); });
  }
  absl::Status Rewrite(const internal::JournalRecord& snapshot) override {
    return Write([&] { disk_.records = {snapshot.SerializeAsString()}; });
  }
  uint64_t size_bytes() const override { return disk_.bytes(); }

 private:
  template <typename F>
  absl::Status Write(F write) {
    // What a dead process does never reaches the disk.
    if (dead_) return absl::OkStatus();
    const Persist what = hook_ ? hook_() : Persist::kDone;
    if (what == Persist::kFails) return absl::ResourceExhaustedError("the disk is full");
    if (what != Persist::kLost) write();
    dead_ = what == Persist::kLost || what == Persist::kKept;
    return absl::OkStatus();
  }

  AgentDisk& disk_;
  const std::string node_;
  Hook hook_;
  bool dead_ = false;
};

}  // namespace muster::testing
