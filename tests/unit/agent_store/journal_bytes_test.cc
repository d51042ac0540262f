#include <gtest/gtest.h>

#include "agent/store/file_agent_store.h"
#include "tests/unit/agent_store/sample_journal.h"

namespace muster {
namespace {

using testing::SampleRecords;

std::string Bytes(const std::vector<internal::JournalRecord>& records) {
  std::string bytes;
  for (const internal::JournalRecord& record : records) bytes += EncodeJournalRecord(record);
  return bytes;
}

AgentState Fold(const std::vector<internal::JournalRecord>& records, size_t count) {
  AgentState state;
  for (size_t i = 0; i < count; ++i) EXPECT_TRUE(ApplyRecord(state, records[i]).ok());
  return state;
}

std::string Text(const AgentState& state) { return SnapshotOf(state).SerializeAsString(); }

TEST(ReadJournal, FoldsAllRecords) {
  const auto records = SampleRecords();
  const auto state = ReadJournal(Bytes(records));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(Text(*state), Text(Fold(records, records.size())));
}

TEST(ReadJournal, TakesEveryTruncationForTheRecordsBeforeIt) {
  const auto records = SampleRecords();
  const std::string bytes = Bytes(records);
  std::vector<size_t> ends;
  size_t end = 0;
  for (const auto& record : records) ends.push_back(end += EncodeJournalRecord(record).size());
  for (size_t length = 0; length < bytes.size(); ++length) {
    size_t whole = 0;
    while (ends[whole] <= length) ++whole;
    const auto state = ReadJournal(std::string_view(bytes).substr(0, length));
    if (whole == 0) {
      EXPECT_EQ(state.status().code(), absl::StatusCode::kDataLoss) << length;
    } else {
      ASSERT_TRUE(state.ok()) << length << " " << state.status();
      EXPECT_EQ(Text(*state), Text(Fold(records, whole))) << length;
    }
  }
}

TEST(ReadJournal, DetectsEveryFlippedBit) {
  const std::string bytes = Bytes(SampleRecords());
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    std::string flipped = bytes;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << (i % 8)));
    EXPECT_EQ(ReadJournal(flipped).status().code(), absl::StatusCode::kDataLoss) << "bit " << i;
  }
}

TEST(ReadJournal, NeverTakesAFlippedBitInATornEndForAnotherState) {
  const auto records = SampleRecords();
  const std::string before = Bytes({records.begin(), records.end() - 1});
  const std::string torn = Bytes(records).substr(0, Bytes(records).size() - 1);
  for (size_t i = before.size() * 8; i < torn.size() * 8; ++i) {
    std::string flipped = torn;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << (i % 8)));
    const auto state = ReadJournal(flipped);
    if (!state.ok()) continue;
    EXPECT_EQ(Text(*state), Text(Fold(records, records.size() - 1))) << i;
  }
}

TEST(ReadJournal, RefusesRecordsOutOfPlace) {
  const auto records = SampleRecords();
  EXPECT_FALSE(ReadJournal("").ok());
  EXPECT_FALSE(ReadJournal(Bytes({records[1]})).ok()) << "no snapshot";
  EXPECT_FALSE(ReadJournal(Bytes({records[0], records[0]})).ok()) << "a second snapshot";
  auto twice = records;
  twice.push_back(records.back());
  EXPECT_FALSE(ReadJournal(Bytes(twice)).ok()) << "a record that cannot follow";
}

TEST(ReadJournal, RefusesZeros) {
  EXPECT_FALSE(ReadJournal(Bytes(SampleRecords()) + std::string(64, '\0')).ok());
}

}  // namespace
}  // namespace muster
