// The agent's journal on a real disk.
#include "agent/store/file_agent_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/agent_store/sample_journal.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using testing::SampleRecords;

class FileAgentStoreTest : public ::testing::Test {
 protected:
  FileAgentStoreTest() {
    char name[] = "/tmp/agent-store-XXXXXX";
    folder_ = ::mkdtemp(name);
    path_ = folder_ / "journal";
  }
  ~FileAgentStoreTest() override { fs::remove_all(folder_); }

  std::string Bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void SetBytes(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  size_t Files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_;
  fs::path path_;
};

TEST_F(FileAgentStoreTest, ReadsBackWhatWasAppended) {
  const auto records = SampleRecords();
  std::string journal_id;
  {
    FileAgentStore store(path_);
    const auto opened = store.Open("boot-1");
    ASSERT_TRUE(opened.ok()) << opened.status();
    journal_id = opened->state.journal_id;
    EXPECT_EQ(journal_id.size(), 32u);
    EXPECT_EQ(opened->note, "");
    for (size_t i = 1; i < records.size(); ++i) ASSERT_TRUE(store.Append(records[i]).ok());
    EXPECT_EQ(store.size_bytes(), fs::file_size(path_));
  }
  FileAgentStore store(path_);
  const auto opened = store.Open("boot-1");
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->state.journal_id, journal_id);
  EXPECT_EQ(opened->state.epoch, 3u);
  EXPECT_EQ(opened->state.last_seq(), 2u);
  EXPECT_EQ(opened->state.attempts.size(), 1u);
  EXPECT_EQ(opened->note, "");
}

TEST_F(FileAgentStoreTest, BeginsAnewOnAnotherBootAndRemembersTheEpoch) {
  std::string journal_id;
  {
    FileAgentStore store(path_);
    journal_id = store.Open("boot-1")->state.journal_id;
    const auto records = SampleRecords();
    for (size_t i = 1; i < records.size(); ++i) ASSERT_TRUE(store.Append(records[i]).ok());
  }
  for (int i = 0; i < 2; ++i) {
    FileAgentStore store(path_);
    const auto opened = store.Open("boot-2");
    ASSERT_TRUE(opened.ok());
    EXPECT_NE(opened->state.journal_id, journal_id);
    EXPECT_EQ(opened->state.boot_id, "boot-2");
    EXPECT_EQ(opened->state.epoch, 3u);
    EXPECT_TRUE(opened->state.attempts.empty());
    EXPECT_EQ(opened->note.empty(), i == 1);
  }
  EXPECT_EQ(Files(), 1u);
}

TEST_F(FileAgentStoreTest, CutsATornEndOffAndGoesOn) {
  {
    FileAgentStore store(path_);
    ASSERT_TRUE(store.Open("boot-1").ok());
    ASSERT_TRUE(store.Append(SampleRecords()[1]).ok());
    ASSERT_TRUE(store.Append(SampleRecords()[2]).ok());
  }
  SetBytes(Bytes().substr(0, Bytes().size() - 3));
  {
    FileAgentStore store(path_);
    const auto opened = store.Open("boot-1");
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(opened->note, "");
    EXPECT_TRUE(opened->state.attempts.empty());
    ASSERT_TRUE(store.Append(SampleRecords()[2]).ok());
  }
  FileAgentStore store(path_);
  EXPECT_EQ(store.Open("boot-1")->state.attempts.size(), 1u);
}

TEST_F(FileAgentStoreTest, PutsADamagedJournalAsideAndKeepsABoundedNumber) {
  for (int i = 0; i < 20; ++i) {
    const std::string damaged = "garbage " + std::to_string(i) + std::string(40, 'x');
    SetBytes(damaged);
    FileAgentStore store(path_);
    const auto opened = store.Open("boot-1");
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_NE(opened->note.find("damaged"), std::string::npos);
    ASSERT_TRUE(store.Append(SampleRecords()[1]).ok());
  }
  EXPECT_EQ(Files(), 9u);
  EXPECT_TRUE(fs::exists(folder_ / "journal.damaged-0"));
}

TEST_F(FileAgentStoreTest, OpensWhateverHappenedToAnyByte) {
  {
    FileAgentStore store(path_);
    ASSERT_TRUE(store.Open("boot-1").ok());
    const auto records = SampleRecords();
    for (size_t i = 1; i < records.size(); ++i) ASSERT_TRUE(store.Append(records[i]).ok());
  }
  const std::string good = Bytes();
  const auto check = [&](const std::string& bytes) {
    SetBytes(bytes);
    FileAgentStore store(path_);
    const auto opened = store.Open("boot-1");
    ASSERT_TRUE(opened.ok()) << opened.status();
    ASSERT_TRUE(store.Rewrite(SnapshotOf(opened->state)).ok());
    internal::JournalRecord epoch;
    epoch.set_epoch(9);
    ASSERT_TRUE(store.Append(epoch).ok());
    FileAgentStore again(path_);
    EXPECT_EQ(again.Open("boot-1")->state.epoch, 9u);
  };
  for (size_t i = 0; i <= good.size(); ++i) check(good.substr(0, i));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    check(bytes);
  }
}

TEST_F(FileAgentStoreTest, ReplacesTheJournalByASnapshot) {
  FileAgentStore store(path_);
  auto opened = store.Open("boot-1");
  ASSERT_TRUE(opened.ok());
  internal::JournalRecord epoch;
  for (uint64_t i = 1; i <= 1000; ++i) {
    epoch.set_epoch(i);
    ASSERT_TRUE(store.Append(epoch).ok());
    ASSERT_TRUE(ApplyRecord(opened->state, epoch).ok());
  }
  const uint64_t before = store.size_bytes();
  ASSERT_TRUE(store.Rewrite(SnapshotOf(opened->state)).ok());
  EXPECT_LT(store.size_bytes(), before / 10);
  epoch.set_epoch(1001);
  ASSERT_TRUE(store.Append(epoch).ok());
  FileAgentStore again(path_);
  EXPECT_EQ(again.Open("boot-1")->state.epoch, 1001u);
}

TEST_F(FileAgentStoreTest, FailsWhereNoFileCanBeMade) {
  FileAgentStore store(folder_ / "missing" / "journal");
  EXPECT_FALSE(store.Open("boot-1").ok());
  EXPECT_FALSE(store.Append(SampleRecords()[1]).ok());
}

TEST_F(FileAgentStoreTest, KeepsEveryAppendedRecordWhenTheProcessIsKilled) {
  for (int round = 0; round < 20; ++round) {
    fs::remove(path_);
    int told[2];
    ASSERT_EQ(::pipe(told), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      FileAgentStore store(path_);
      auto opened = store.Open("boot-1");
      internal::JournalRecord epoch;
      for (uint64_t i = 1;; ++i) {
        epoch.set_epoch(i);
        if (!store.Append(epoch).ok()) ::_exit(1);
        if (i % 50 == 0 && ApplyRecord(opened->state, epoch).ok()) {
          if (!store.Rewrite(SnapshotOf(opened->state)).ok()) ::_exit(1);
        }
        // Only what was appended is told.
        if (::write(told[1], &i, sizeof(i)) != sizeof(i)) ::_exit(1);
      }
    }
    ::close(told[1]);
    uint64_t last = 0;
    for (int i = 0; i < 60 + 37 * round; ++i) {
      ASSERT_EQ(::read(told[0], &last, sizeof(last)), static_cast<ssize_t>(sizeof(last)));
    }
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    while (::read(told[0], &last, sizeof(last)) == static_cast<ssize_t>(sizeof(last))) {
    }
    ::close(told[0]);
    FileAgentStore store(path_);
    const auto opened = store.Open("boot-1");
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(opened->note, "");
    EXPECT_GE(opened->state.epoch, last);
    EXPECT_LE(opened->state.epoch, last + 1);
  }
}

}  // namespace
}  // namespace muster
