// Records of a shim that were cut or changed on the disk: what follows the shim hears those before
// the damage, exactly as they were, and nothing else; ranks whose end was among the rest are lost.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "agent/supervise/attempt_directory.h"
#include "common/io/record_log.h"
#include "tests/process/agent/agent_process.h"
#include "tests/process/agent/launcher_fixture.h"

namespace muster {
namespace {

using Record = internal::ShimRecord;

const AttemptId kAttempt = UniqueAttempt("job-d");

std::string Bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void SetBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string Flipped(std::string bytes, size_t bit) {
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  return bytes;
}

// Offsets behind each record of a record log.
std::vector<size_t> Ends(std::string_view bytes) {
  std::vector<size_t> ends;
  const size_t whole = bytes.size();
  while (TakeRecord(bytes)) ends.push_back(whole - bytes.size());
  return ends;
}

// Records that end at or before a byte.
size_t CountBefore(const std::vector<size_t>& ends, size_t byte) {
  return static_cast<size_t>(
      std::count_if(ends.begin(), ends.end(), [&](size_t end) { return end <= byte; }));
}

class DamagedRecords : public LauncherTest {
 protected:
  // An attempt that ended, and what its shim recorded.
  void RunToEnd() {
    Start(kAttempt, {"exit 4", "kill -9 $$", "exit 0"});
    ASSERT_TRUE(Wait([&] { return Saw(kAttempt, Record::kStopped); }));
    launcher_->Quit(kAttempt);
    ASSERT_TRUE(Wait([&] { return Gone(kAttempt); }));
    path_ = Directory(kAttempt) + "/" + kRecordsFile;
    good_ = Bytes(path_);
    for (const Record& record : records_[kAttempt]) truth_.push_back(record.SerializeAsString());
    ASSERT_EQ(Ends(good_).size(), truth_.size());
    ASSERT_EQ(Ends(good_).back(), good_.size());
  }

  // What a new agent hears of these bytes.
  void ExpectHeard(const std::string& bytes, size_t count, const std::string& what) {
    SetBytes(path_, bytes);
    Restart();
    records_.clear();
    gone_.clear();
    launcher_->Adopt(kAttempt, 1);
    ASSERT_TRUE(Wait([&] { return Gone(kAttempt); })) << what;
    ASSERT_EQ(records_[kAttempt].size(), count) << what;
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(records_[kAttempt][i].SerializeAsString(), truth_[i]) << what;
    }
  }

  std::string path_;
  std::string good_;
  std::vector<std::string> truth_;
};

TEST_F(DamagedRecords, CutAnywhereAreHeardUpToTheCut) {
  RunToEnd();
  const std::vector<size_t> ends = Ends(good_);
  for (size_t size = 0; size <= good_.size(); ++size) {
    ExpectHeard(good_.substr(0, size), CountBefore(ends, size), fmt::format("{} bytes", size));
    if (HasFatalFailure()) return;
  }
}

TEST_F(DamagedRecords, WithAnyBitFlippedAreHeardUpToThere) {
  RunToEnd();
  const std::vector<size_t> ends = Ends(good_);
  const int root = ::open(options_.attempts_directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const UniqueFd keeper(root);
  const auto directory = AttemptDirectory::Open(root, options_.attempts_directory, kAttempt);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  for (size_t bit = 0; bit < good_.size() * 8; ++bit) {
    const size_t at = bit / 8;
    const std::string damaged = Flipped(good_, bit);
    ASSERT_EQ(::pwrite(file.get(), &damaged[at], 1, static_cast<off_t>(at)), 1);
    std::vector<std::string> heard;
    (void)directory->ReadRecords(1, [&](const Record& record) {
      heard.push_back(record.SerializeAsString());
      return true;
    });
    ASSERT_EQ(::pwrite(file.get(), &good_[at], 1, static_cast<off_t>(at)), 1);
    const std::vector<std::string> expected(
        truth_.begin(), truth_.begin() + static_cast<long>(CountBefore(ends, at)));
    ASSERT_EQ(heard, expected) << "bit " << bit;
  }
  // The same all the way, for some of them.
  std::mt19937 random(23);
  for (int i = 0; i < 50; ++i) {
    const size_t bit = random() % (good_.size() * 8);
    ExpectHeard(Flipped(good_, bit), CountBefore(ends, bit / 8), fmt::format("bit {}", bit));
    if (HasFatalFailure()) return;
  }
}

// Records that are whole and in their places, but not of this story.
TEST_F(DamagedRecords, ThatAreRepeatedOrMissingAreNotHeardBeyond) {
  RunToEnd();
  const std::vector<size_t> ends = Ends(good_);
  const std::string first = good_.substr(0, ends[0]);
  const std::string second = good_.substr(ends[0], ends[1] - ends[0]);
  ExpectHeard(first + good_.substr(ends[1]), 1, "the second is missing");
  ExpectHeard(first + second + second + good_.substr(ends[1]), truth_.size(), "the second twice");
  std::string alien;
  AppendRecord(alien, "\xff\xff\xff\xff");
  ExpectHeard(first + alien + good_.substr(ends[0]), 1, "no message");
}

// From the disk to the coordinator. The ranks end while no agent lives, so that only their shim's
// records tell how.
TEST_F(AgentTest, TellsOfDamagedRecordsWhatIsIntactAndOtherwiseOfLoss) {
  std::mt19937 random(29);
  for (int round = 0; round < 6; ++round) {
    const AttemptId id = UniqueAttempt(fmt::format("job-d{}", round).c_str());
    const std::string gate = fmt::format("{}/gate.{}", temp_.path(), round);
    StartAgent();
    Run(id, 3, "while [ ! -e " + gate + " ]; do sleep 0.005; done; exit $((40 + RANK))");
    const int shim = ShimPid(id);
    const std::string path = AttemptDirectory(id) + "/" + kRecordsFile;
    agent_->KillNow();
    const size_t known = Bytes(path).size();
    SetBytes(gate, "");
    const auto all_recorded = [&] {
      RecordLogEnd end;
      bool stopped = false;
      (void)!ReadRecordLog(path, end, [&](std::string_view bytes) {
        Record record;
        stopped = record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) &&
                  record.has_stopped();
        return true;
      });
      return stopped;
    };
    ASSERT_TRUE(WaitUntil(all_recorded));
    ASSERT_EQ(::kill(shim, SIGKILL), 0);
    ASSERT_TRUE(WaitUntil([&] { return !ProcessLives(shim); }));
    const std::string good = Bytes(path);
    const size_t at = known + random() % (good.size() - known);
    SetBytes(path, round % 2 == 0 ? good.substr(0, at) : Flipped(good, at * 8 + random() % 8));
    std::map<uint32_t, int> intact;
    std::string_view rest = good;
    for (size_t i = CountBefore(Ends(good), at); i > 0; --i) {
      Record record;
      const std::string_view bytes = *TakeRecord(rest);
      ASSERT_TRUE(record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
      if (record.has_rank_exited()) {
        intact[record.rank_exited().rank()] = record.rank_exited().value();
      }
    }
    StartAgent();
    ASSERT_TRUE(WaitFor(id, v1::Event::kAttemptStopped));
    std::map<uint32_t, int> told;
    for (const v1::Event& event : Events(id, v1::Event::kRankExited)) {
      told[event.rank_exited().rank()] = static_cast<int>(event.rank_exited().status().exit_code());
    }
    EXPECT_EQ(told, intact) << "damage at " << at;
    for (const auto& [rank, code] : told) EXPECT_EQ(code, 40 + static_cast<int>(rank));
    EXPECT_EQ(Events(id, v1::Event::kRankLost).size(), 3 - intact.size()) << "damage at " << at;
    agent_->KillNow();
  }
}

}  // namespace
}  // namespace muster
