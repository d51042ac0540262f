// A store whose files were cut or changed behind its back: it opens with something that was true
// once, or it says that it is damaged. It never invents anything, and never forgets a part in the
// middle.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <string>

#include "coordinator/store/sqlite_store.h"
#include "tests/contract/store/store_fixture.h"

namespace muster {
namespace {

struct StoreFiles {
  std::string database;
  std::string log;
};

std::string Bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Everything that a state says, but for the epoch.
std::string Text(const StoredState& state) {
  std::string text;
  for (const std::string& line : Describe(state)) text += line + "\n";
  for (const internal::NodeRecord& node : state.nodes) text += node.ShortDebugString() + "\n";
  return text;
}

class SqliteDamage : public testing::Test {
 protected:
  // Files as a killed coordinator leaves them: some batches in the database, some in its log.
  SqliteDamage() {
    files_ = Run(40, /*killed=*/false);
    files_ = Run(25, /*killed=*/true);
    EXPECT_GT(files_.database.size(), 5 * 4096u);
    EXPECT_GT(files_.log.size(), 20 * 4096u);
  }

  // From place to place: far in usual runs, near in long ones.
  static size_t Step(size_t usual, size_t near = 1) {
    return std::getenv("MUSTER_CAMPAIGN_FACTOR") != nullptr ? near : usual;
  }

  // What the store says with these files. Fails the test when that is neither an old truth nor an
  // error.
  absl::StatusOr<StoredState> Check(const StoreFiles& files, const std::string& what) {
    Write(files);
    absl::StatusOr<std::unique_ptr<SqliteStore>> store = SqliteStore::Open(Options(false), loop_);
    if (!store.ok()) return Refused(store.status(), what);
    absl::StatusOr<StoredState> state = (*store)->Load();
    if (!state.ok()) return Refused(state.status(), what);
    EXPECT_TRUE(truths_.contains(Text(*state))) << what << ":\n" << Text(*state);
    EXPECT_GE(state->epoch, 1u) << what;
    EXPECT_LE(state->epoch, epoch_ + 1) << what;
    return state;
  }

  std::string Flipped(std::string bytes, size_t at) {
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random_() % 8)));
    return bytes;
  }

  SqliteStoreOptions Options(bool quarantine) const {
    return {.path = path_,
            .policy = SqliteStoreOptions::Policy::kBestEffort,
            .quarantine_damaged = quarantine};
  }

  void Write(const StoreFiles& files) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      std::filesystem::remove(entry.path());
    }
    std::ofstream(path_, std::ios::binary) << files.database;
    std::ofstream(path_ + "-wal", std::ios::binary) << files.log;
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.path() + "/store.db";
  EventLoop loop_;
  std::mt19937 random_{17};
  StoreFiles files_;
  // What was true at some time.
  std::set<std::string> truths_ = {""};
  uint64_t epoch_ = 0;

 private:
  // Appends batches of three jobs and three nodes, and returns the files.
  StoreFiles Run(int batches, bool killed) {
    absl::StatusOr<std::unique_ptr<SqliteStore>> store = SqliteStore::Open(Options(false), loop_);
    EXPECT_TRUE(store.ok());
    StoredState state = *(*store)->Load();
    epoch_ = state.epoch;
    for (int i = 0; i < batches; ++i) {
      const int number = next_++;
      StoreBatch batch;
      const std::string job(1, static_cast<char>('a' + number % 3));
      for (int k = 0; k < 1 + number % 2; ++k) {
        batch.events.push_back(MakeEvent(job, ++indices_[job], std::string(60 + number, 'n')));
      }
      if (number % 4 == 0) {
        batch.nodes.push_back(
            MakeNode("node-" + std::to_string(number % 3), static_cast<uint64_t>(number)));
      }
      EXPECT_TRUE(AppendAndWait(loop_, **store, std::move(batch)).ok());
      truths_.insert(Text(*ReadNow()));
    }
    StoreFiles files{Bytes(path_), Bytes(path_ + "-wal")};
    store->reset();
    return killed ? files : StoreFiles();
  }

  absl::StatusOr<StoredState> ReadNow() const {
    const ScratchFolder copy;
    const std::string path = copy.path() + "/copy.db";
    std::filesystem::copy(path_, path);
    std::filesystem::copy(path_ + "-wal", path + "-wal");
    return SqliteStore::Peek(path);
  }

  absl::Status Refused(const absl::Status& status, const std::string& what) const {
    EXPECT_NE(std::string(status.message()).find(path_), std::string::npos) << what << status;
    return status;
  }

  int next_ = 0;
  std::map<std::string, uint64_t> indices_;
};

TEST_F(SqliteDamage, OfNothingIsReadWhole) {
  const auto state = Check(files_, "untouched");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->events.size(), 97u);
  EXPECT_EQ(state->nodes.size(), 3u);
  EXPECT_EQ(state->epoch, epoch_ + 1);
}

TEST_F(SqliteDamage, ByCuttingTheLogAtAnyByteLeavesAnOlderTruth) {
  size_t before = 0;
  for (size_t size = 0; size <= files_.log.size(); size += Step(1009, 3)) {
    const auto state = Check({files_.database, files_.log.substr(0, size)},
                             "log cut after " + std::to_string(size));
    ASSERT_TRUE(state.ok()) << size << state.status();
    EXPECT_GE(state->events.size(), before) << "a longer log knows no less";
    before = state->events.size();
    if (HasFailure()) break;
  }
}

TEST_F(SqliteDamage, ByCuttingTheDatabaseIsNoticed) {
  for (size_t size = 0; size < files_.database.size(); size += Step(401)) {
    const std::string what = "database cut after " + std::to_string(size);
    (void)Check({files_.database.substr(0, size), files_.log}, what);
    (void)Check({files_.database.substr(0, size), ""}, what + ", no log");
    if (HasFailure()) break;
  }
  for (size_t size = 0; size < files_.database.size(); size += 4096) {
    (void)Check({files_.database.substr(0, size), ""}, "database of " + std::to_string(size));
  }
}

TEST_F(SqliteDamage, ByBitsThatFlippedIsNoticedOrHarmless) {
  // As a coordinator that ended well leaves it, so that the log hides nothing.
  Write(files_);
  {
    auto store = SqliteStore::Open(Options(false), loop_);
    ASSERT_TRUE((*store)->Load().ok());
    ++epoch_;
  }
  const std::string whole = Bytes(path_);
  const std::string truth = Text(*SqliteStore::Peek(path_));
  for (size_t at = 0; at < whole.size(); at += Step(97)) {
    const std::string what = "flip in byte " + std::to_string(at);
    const auto state = Check({Flipped(whole, at), ""}, what);
    // Nothing is missing at the end either.
    if (state.ok()) {
      EXPECT_EQ(Text(*state), truth) << what;
    }
  }
}

TEST_F(SqliteDamage, ByBitsThatFlippedInTheLogLeavesAnOlderTruth) {
  for (size_t at = 0; at < files_.log.size(); at += Step(1511, 7)) {
    (void)Check({files_.database, Flipped(files_.log, at)}, "flip in byte " + std::to_string(at));
  }
}

TEST_F(SqliteDamage, IsPutAsideWithItsLogAndTheStoreBeginsAnew) {
  for (size_t at = 100; at < files_.database.size(); at += 4096) {
    std::string database = files_.database;
    database.replace(at, 64, 64, '\xee');
    Write({database, ""});
    auto store = SqliteStore::Open(Options(true), loop_);
    ASSERT_TRUE(store.ok()) << store.status();
    const auto state = (*store)->Load();
    ASSERT_TRUE(state.ok()) << state.status();
    if (Text(*state).empty()) {
      size_t aside = 0;
      for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
        if (Bytes(entry.path()) == database) ++aside;
      }
      EXPECT_EQ(aside, 1u) << "damage at " << at;
    } else {
      EXPECT_TRUE(truths_.contains(Text(*state))) << "damage at " << at;
    }
    EXPECT_TRUE(AppendAndWait(loop_, **store, {.events = {MakeEvent("z", 1, "x")}}).ok());
  }
}

}  // namespace
}  // namespace muster
