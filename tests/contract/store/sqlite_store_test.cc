// What only a store with a file can do wrong.
#include "coordinator/store/sqlite_store.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <mutex>

#include "common/base/annotate.h"
#include "tests/contract/store/store_fixture.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Policy = SqliteStoreOptions::Policy;

class SqliteStoreTest : public testing::Test {
 protected:
  SqliteStoreOptions Options(Policy policy = Policy::kStrict) {
    return {.path = path_, .policy = policy, .on_trouble = [this](const std::string& message) {
              std::lock_guard lock(mutex_);
              troubles_.push_back(message);
            }};
  }
  std::unique_ptr<SqliteStore> Open(SqliteStoreOptions options) {
    absl::StatusOr<std::unique_ptr<SqliteStore>> store =
        SqliteStore::Open(std::move(options), loop_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  // A store with 200 events, closed again.
  void Fill() {
    std::unique_ptr<SqliteStore> store = Open(Options());
    ASSERT_TRUE(store->Load().ok());
    StoreBatch batch;
    for (uint64_t i = 1; i <= 200; ++i) {
      batch.events.push_back(MakeEvent("a", i, std::string(200, 'n')));
    }
    ASSERT_TRUE(AppendAndWait(loop_, *store, std::move(batch)).ok());
  }
  void Overwrite(std::streamoff at, const std::string& bytes) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file << bytes;
  }
  std::vector<std::string> troubles() {
    std::lock_guard lock(mutex_);
    return troubles_;
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.path() + "/store.db";
  EventLoop loop_;
  std::mutex mutex_;
  std::vector<std::string> troubles_;
};

TEST_F(SqliteStoreTest, MakesAPrivateFile) {
  Open(Options());
  struct stat info;
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST_F(SqliteStoreTest, RefusesASecondOwner) {
  const std::unique_ptr<SqliteStore> first = Open(Options());
  ASSERT_TRUE(first->Load().ok());
  const auto second = SqliteStore::Open(Options(), loop_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition) << second.status();
}

TEST_F(SqliteStoreTest, NamesAFileThatIsNoDatabase) {
  std::ofstream(path_) << std::string(5000, 'x');
  const auto store = SqliteStore::Open(Options(), loop_);
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(ToStd(store.status().message())), HasSubstr(path_));
}

TEST_F(SqliteStoreTest, RefusesTheDatabaseOfAnotherProgram) {
  Fill();
  Overwrite(68, std::string("\x01\x02\x03\x04", 4));  // application id in the header of the file
  const auto store = SqliteStore::Open(Options(), loop_);
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition) << store.status();
}

TEST_F(SqliteStoreTest, RefusesANewerVersion) {
  Fill();
  Overwrite(60, std::string("\x00\x00\x00\x63", 4));  // user version in the header of the file
  const auto store = SqliteStore::Open(Options(), loop_);
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(ToStd(store.status().message())), HasSubstr("version 99"));
}

TEST_F(SqliteStoreTest, NoticesBitsThatFlipped) {
  Fill();
  // Names fill the file from the end; flip one bit in the middle of one.
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path_));
  std::ifstream in(path_, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const size_t at = bytes.find(std::string(100, 'n'), static_cast<size_t>(size) / 2);
  ASSERT_NE(at, std::string::npos);
  Overwrite(static_cast<std::streamoff>(at) + 50, "m");
  std::unique_ptr<SqliteStore> store = Open(Options());
  const auto state = store->Load();
  EXPECT_EQ(state.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(ToStd(state.status().message())), HasSubstr(path_));
}

TEST_F(SqliteStoreTest, QuarantinesADamagedFile) {
  std::ofstream(path_) << std::string(5000, 'x');
  SqliteStoreOptions options = Options();
  options.quarantine_damaged = true;
  std::unique_ptr<SqliteStore> store = Open(options);
  const auto state = store->Load();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->epoch, 1u);
  bool kept = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    kept |= entry.path().string().starts_with(path_ + ".damaged-");
  }
  EXPECT_TRUE(kept);
}

TEST_F(SqliteStoreTest, QuarantinesDamageFoundWhileLoading) {
  Fill();
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path_));
  Overwrite(size - 4096, std::string(4096, '\xee'));
  SqliteStoreOptions options = Options();
  options.quarantine_damaged = true;
  std::unique_ptr<SqliteStore> store = Open(options);
  const auto state = store->Load();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_THAT(state->events, SizeIs(0));
  EXPECT_TRUE(AppendAndWait(loop_, *store, {.events = {MakeEvent("a", 1, "x")}}).ok());
}

TEST_F(SqliteStoreTest, StoresAllOfABatchOrNothing) {
  std::unique_ptr<SqliteStore> store = Open(Options());
  ASSERT_TRUE(store->Load().ok());
  ASSERT_TRUE(AppendAndWait(loop_, *store, {.events = {MakeEvent("a", 1, "x")}}).ok());
  // The second event repeats a place that is taken.
  EXPECT_FALSE(
      AppendAndWait(loop_, *store, {.events = {MakeEvent("b", 1, "y"), MakeEvent("a", 1, "z")}})
          .ok());
  ASSERT_TRUE(AppendAndWait(loop_, *store, {.events = {MakeEvent("b", 1, "again")}}).ok());
  store.reset();
  store = Open(Options());
  EXPECT_THAT(Describe(*store->Load()), ElementsAre("a/1=x", "b/1=again"));
}

TEST_F(SqliteStoreTest, IsReadWithoutBeingTakenOver) {
  Fill();
  const auto peeked = SqliteStore::Peek(path_);
  ASSERT_TRUE(peeked.ok()) << peeked.status();
  EXPECT_THAT(peeked->events, SizeIs(200));
  EXPECT_EQ(peeked->epoch, 1u);
  EXPECT_EQ(Open(Options())->Load()->epoch, 2u);
  EXPECT_FALSE(SqliteStore::Peek(folder_.path() + "/missing.db").ok());
}

// A full file system of 1 MiB over `path`, as long as the object lives.
class FullDisk {
 public:
  explicit FullDisk(const std::string& path) : path_(path) {
    mounted_ = ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1m") == 0;
  }
  ~FullDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  void Fill() const {
    std::ofstream file(path_ + "/fill", std::ios::binary);
    while (file << std::string(4096, 'f') << std::flush) {
    }
  }

 private:
  const std::string path_;
  bool mounted_ = false;
};

TEST_F(SqliteStoreTest, IsReadFromAFullDiskWithItsLogAndLeftAsItIs) {
  const FullDisk disk(folder_.path());
  if (!disk.mounted()) GTEST_SKIP() << "a small file system can only be mounted as root";
  const std::string copy = folder_.path() + "/copy?%41#.db";
  {
    std::unique_ptr<SqliteStore> store = Open(Options());
    ASSERT_TRUE(store->Load().ok());
    StoreBatch batch;
    for (uint64_t i = 1; i <= 200; ++i) batch.events.push_back(MakeEvent("a", i, "name"));
    ASSERT_TRUE(AppendAndWait(loop_, *store, std::move(batch)).ok());
    // As if this process had been killed now.
    std::filesystem::copy(path_, copy);
    std::filesystem::copy(path_ + "-wal", copy + "-wal");
  }
  disk.Fill();
  ASSERT_GT(std::filesystem::file_size(copy + "-wal"), 0u);
  ASSERT_FALSE(std::filesystem::exists(path_ + "-wal"));
  const auto files = [&] {
    std::map<std::string, uint64_t> sizes;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      sizes[entry.path().filename().string()] = entry.file_size();
    }
    return sizes;
  };
  const auto before = files();
  for (const std::string& path : {copy, path_, copy}) {
    const auto peeked = SqliteStore::Peek(path);
    ASSERT_TRUE(peeked.ok()) << peeked.status();
    EXPECT_THAT(peeked->events, SizeIs(200));
    EXPECT_EQ(files(), before);
  }
}

// Files of this process cannot grow beyond `bytes` while the object lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit before_;
};

TEST_F(SqliteStoreTest, StrictReportsAFullDisk) {
  std::unique_ptr<SqliteStore> store = Open(Options());
  ASSERT_TRUE(store->Load().ok());
  {
    const FileSizeLimit limit(4096);
    EXPECT_FALSE(
        AppendAndWait(loop_, *store, {.events = {MakeEvent("a", 1, std::string(20000, 'n'))}})
            .ok());
  }
  EXPECT_TRUE(
      AppendAndWait(loop_, *store, {.events = {MakeEvent("a", 1, std::string(20000, 'n'))}}).ok());
  EXPECT_THAT(troubles(), SizeIs(0));
}

TEST_F(SqliteStoreTest, BestEffortGoesOnWithoutTheDiskAndCatchesUp) {
  std::unique_ptr<SqliteStore> store = Open(Options(Policy::kBestEffort));
  ASSERT_TRUE(store->Load().ok());
  {
    const FileSizeLimit limit(4096);
    for (uint64_t i = 1; i <= 3; ++i) {
      EXPECT_TRUE(
          AppendAndWait(loop_, *store, {.events = {MakeEvent("a", i, std::string(20000, 'n'))}})
              .ok());
    }
    ASSERT_THAT(troubles(), SizeIs(1)) << "told once";
    EXPECT_THAT(troubles()[0], HasSubstr("cannot be stored"));
  }
  EXPECT_TRUE(AppendAndWait(loop_, *store, {.events = {MakeEvent("a", 4, "x")}}).ok());
  ASSERT_THAT(troubles(), SizeIs(2));
  EXPECT_THAT(troubles()[1], HasSubstr("again"));
  store.reset();
  EXPECT_THAT(SqliteStore::Peek(path_)->events, SizeIs(4));
}

}  // namespace
}  // namespace muster
