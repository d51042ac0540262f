// LogStore on real files.
#include "coordinator/logs/log_store.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>
#include <future>
#include <map>
#include <mutex>

#include "common/base/annotate.h"
#include "common/io/log_frame.h"
#include "tests/contract/store/store_fixture.h"

namespace muster {
namespace {

using ::testing::SizeIs;

constexpr std::chrono::seconds kLimit{20};

StoredLogId Id(const std::string& job, uint32_t attempt, uint32_t rank) {
  return {{JobId(job), attempt}, Rank{rank}};
}

class LogStoreTest : public testing::Test {
 protected:
  void SetUp() override { Open(false); }
  void Open(bool durable) {
    store_.reset();
    auto opened = LogStore::Open({.directory = folder_.path() + "/logs",
                                  .durable = durable,
                                  .on_trouble = [this](const std::string& text) {
                                    std::lock_guard lock(mutex_);
                                    troubles_.push_back(text);
                                  }});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  absl::StatusOr<uint64_t> Append(const StoredLogId& id, uint64_t offset, const std::string& data,
                                  uint64_t zeros = 0) {
    std::promise<absl::StatusOr<uint64_t>> answer;
    auto future = answer.get_future();
    store_->Append(id, offset, {data, zeros}, [&](auto committed) { answer.set_value(committed); });
    if (future.wait_for(kLimit) != std::future_status::ready) std::abort();
    return future.get();
  }
  std::vector<uint64_t> Committed(std::vector<StoredLogId> ids) {
    std::promise<std::vector<uint64_t>> answer;
    store_->GetCommitted(std::move(ids), [&](auto sizes) {
      EXPECT_TRUE(sizes.ok()) << sizes.status();
      answer.set_value(*sizes);
    });
    return answer.get_future().get();
  }
  std::string ReadAll(const StoredLogId& id) {
    const absl::StatusOr<std::string> data = store_->Read(id, 0, size_t{1} << 30);
    EXPECT_TRUE(data.ok()) << data.status();
    return data.value_or("");
  }
  std::vector<std::string> troubles() {
    std::lock_guard lock(mutex_);
    return troubles_;
  }

  ScratchFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> troubles_;
  std::unique_ptr<LogStore> store_;
  const StoredLogId id_ = Id("job-1", 1, 7);
};

TEST_F(LogStoreTest, StoresAtTheOffset) {
  EXPECT_EQ(*Append(id_, 0, "hello "), 6u);
  EXPECT_EQ(*Append(id_, 6, "world"), 11u);
  EXPECT_EQ(ReadAll(id_), "hello world");
  EXPECT_EQ(store_->CommittedSize(id_), 11u);
  EXPECT_EQ(*store_->Read(id_, 6, 3), "wor");
  EXPECT_EQ(*store_->Read(id_, 11, 3), "");
  EXPECT_EQ(*store_->Read(Id("job-1", 1, 8), 0, 3), "");
}

TEST_F(LogStoreTest, ZerosTakeNoRoom) {
  Open(true);
  EXPECT_EQ(*Append(id_, 0, "begin", 200'000), 200'005u);
  EXPECT_EQ(*Append(id_, 100'000, std::string(150'000, '\0'), 50'000), 300'000u)
      << "what is stored is skipped";
  EXPECT_EQ(*Append(id_, 3, "in", 299'000), 300'000u);
  EXPECT_EQ(*Append(id_, 300'000, "end"), 300'003u);
  EXPECT_TRUE(ReadAll(id_) == "begin" + std::string(299'995, '\0') + "end");
  struct stat info;
  ASSERT_EQ(::stat(store_->PathOf(id_).c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 100'000);
  Open(true);
  EXPECT_EQ(store_->CommittedSize(id_), 300'003u);
}

TEST_F(LogStoreTest, TellsZerosThatTakeNoRoom) {
  ASSERT_TRUE(Append(id_, 0, "begin", 200'000).ok());
  ASSERT_TRUE(Append(id_, 200'005, "middle" + std::string(100'000, '\0') + "more", 100).ok());
  ASSERT_TRUE(Append(id_, 300'115, "end", 300'000).ok());
  std::string file;
  uint64_t told = 0;
  while (file.size() < 600'118) {
    // To an end that is nearer than what is stored.
    const uint64_t end = file.size() < 500'000 ? 500'000 : 700'000;
    const auto piece = store_->ReadSparse(id_, file.size(), end, 50'000);
    ASSERT_TRUE(piece.ok()) << piece.status();
    ASSERT_LE(piece->data.size(), 50'000u);
    ASSERT_GT(piece->size(), 0u);
    file += piece->data + std::string(piece->zeros, '\0');
    told += piece->zeros;
    ASSERT_LE(file.size(), end);
  }
  EXPECT_TRUE(file == ReadAll(id_));
  EXPECT_EQ(file.size(), 600'118u);
  EXPECT_GE(told, 450'000u);
  EXPECT_EQ(store_->ReadSparse(id_, 600'118, 700'000, 10)->size(), 0u);
}

TEST_F(LogStoreTest, ZerosAreNoneOfWhatAFailedWriteLeft) {
  ASSERT_TRUE(Append(id_, 0, "0123").ok());
  std::ofstream(store_->PathOf(id_), std::ios::app) << "left behind";
  EXPECT_EQ(*Append(id_, 4, "", 10), 14u);
  EXPECT_EQ(ReadAll(id_), "0123" + std::string(10, '\0'));
}

TEST_F(LogStoreTest, KeepsFilesPrivate) {
  ASSERT_TRUE(Append(id_, 0, "x").ok());
  EXPECT_EQ(store_->PathOf(id_), folder_.path() + "/logs/job-1/1/rank-00007.log");
  struct stat info;
  ASSERT_EQ(::stat(store_->PathOf(id_).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(LogStoreTest, SkipsWhatIsStored) {
  ASSERT_TRUE(Append(id_, 0, "0123").ok());
  EXPECT_EQ(*Append(id_, 0, "01"), 4u);
  EXPECT_EQ(*Append(id_, 2, "2345"), 6u);
  EXPECT_EQ(ReadAll(id_), "012345");
}

TEST_F(LogStoreTest, RefusesAGap) {
  ASSERT_TRUE(Append(id_, 0, "0123").ok());
  EXPECT_EQ(Append(id_, 5, "x").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadAll(id_), "0123");
}

TEST_F(LogStoreTest, RefusesIdsThatAreNoPaths) {
  for (const std::string job : {"", "..", "a/b", "A", ".hidden"}) {
    EXPECT_EQ(Append(Id(job, 1, 0), 0, "x").status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(LogStoreTest, DoesNotFollowLinks) {
  std::filesystem::create_directories(folder_.path() + "/logs/job-1/1");
  std::filesystem::create_symlink(folder_.path() + "/elsewhere", store_->PathOf(id_));
  EXPECT_FALSE(Append(id_, 0, "x").ok());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/elsewhere"));
}

TEST_F(LogStoreTest, FindsItsSizesAgainAfterARestart) {
  ASSERT_TRUE(Append(id_, 0, "0123").ok());
  Open(false);
  EXPECT_EQ(store_->CommittedSize(id_), 4u);
  EXPECT_THAT(Committed({id_, Id("job-1", 1, 8)}), testing::ElementsAre(4u, 0u));
  EXPECT_EQ(*Append(id_, 4, "45"), 6u);
}

TEST_F(LogStoreTest, CommitsWhatTheDiskHasInDurableMode) {
  Open(true);
  for (uint64_t i = 0; i < 20; ++i) ASSERT_EQ(*Append(id_, i, "x"), i + 1);
  EXPECT_EQ(store_->CommittedSize(id_), 20u);
}

TEST_F(LogStoreTest, AnswersInOrderHoweverManyAreQueued) {
  std::promise<void> all;
  std::vector<uint64_t> sizes;
  const uint64_t count = 2000;
  for (uint64_t i = 0; i < count; ++i) {
    store_->Append(id_, i * 3, {"abc"}, [&](auto committed) {
      sizes.push_back(*committed);
      if (sizes.size() == count) all.set_value();
    });
  }
  ASSERT_EQ(all.get_future().wait_for(kLimit), std::future_status::ready);
  EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
  EXPECT_EQ(sizes.back(), count * 3);
}

TEST_F(LogStoreTest, KeepsMoreFilesThanItMayHaveOpen) {
  for (uint32_t round = 0; round < 2; ++round) {
    for (uint32_t rank = 0; rank < 600; ++rank) {
      ASSERT_EQ(*Append(Id("job-1", 1, rank), round * 2, "ab"), round * 2 + 2);
    }
  }
  EXPECT_EQ(ReadAll(Id("job-1", 1, 599)), "abab");
}

class Recorder final : public LogListener {
 public:
  void OnLogGrowth(const StoredLogId& file, uint64_t committed) override {
    std::lock_guard lock(mutex_);
    EXPECT_GE(committed, sizes_[file]);
    sizes_[file] = committed;
  }
  std::map<StoredLogId, uint64_t> sizes() {
    std::lock_guard lock(mutex_);
    return sizes_;
  }

 private:
  std::mutex mutex_;
  std::map<StoredLogId, uint64_t> sizes_;
};

TEST_F(LogStoreTest, TellsListenersBeforeItAnswers) {
  const auto global = std::make_shared<Recorder>();
  const auto one = std::make_shared<Recorder>();
  store_->SetGlobalListener(global);
  store_->AddListener({JobId("job-1"), 1}, one);
  ASSERT_TRUE(Append(id_, 0, "0123").ok());
  ASSERT_TRUE(Append(Id("job-1", 2, 0), 0, "x").ok());
  EXPECT_THAT(global->sizes(), SizeIs(2));
  ASSERT_THAT(one->sizes(), SizeIs(1));
  EXPECT_EQ(one->sizes()[id_], 4u);
  store_->RemoveListener({JobId("job-1"), 1}, one.get());
  ASSERT_TRUE(Append(id_, 4, "4").ok());
  EXPECT_EQ(one->sizes()[id_], 4u);
  EXPECT_EQ(global->sizes()[id_], 5u);
}

TEST_F(LogStoreTest, ForgetsAJob) {
  ASSERT_TRUE(Append(id_, 0, "0123").ok());
  ASSERT_TRUE(Append(Id("job-2", 1, 0), 0, "01").ok());
  store_->Forget(JobId("job-1"));
  EXPECT_THAT(Committed({id_, Id("job-2", 1, 0)}), testing::ElementsAre(0u, 2u));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/logs/job-1"));
}

TEST_F(LogStoreTest, FindsTheTail) {
  std::string file;
  for (int i = 0; i < 100; ++i) AppendFrame(file, FrameKind::kStdout, 1, "0123456789");
  ASSERT_TRUE(Append(id_, 0, file).ok());
  EXPECT_EQ(*store_->TailStart(id_, 100), file.size() - 2 * 34);
  EXPECT_EQ(*store_->TailStart(id_, 1000000), 0u);
}

TEST_F(LogStoreTest, SaysOnceThatThereIsNoSpaceAndGoesOn) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string data(700, 'x');
  EXPECT_TRUE(Append(id_, 0, data).ok());
  EXPECT_EQ(Append(id_, 700, data).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Append(id_, 1000, data).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(store_->Blocked(id_));
  EXPECT_EQ(store_->CommittedSize(id_), 1000u) << "what fitted is kept";
  EXPECT_THAT(troubles(), SizeIs(1));
  EXPECT_TRUE(Append(Id("job-1", 1, 8), 0, data).ok()) << "other files go on";
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(*Append(id_, 1000, data), 1700u);
  EXPECT_FALSE(store_->Blocked(id_));
  EXPECT_THAT(troubles(), SizeIs(2));
}

TEST_F(LogStoreTest, ReadingDoesNotWaitForASearch) {
  std::promise<void> found;
  std::promise<void> read;
  store_->PostSearch([later = found.get_future().share()] { later.wait(); });
  store_->PostRead([&] { read.set_value(); });
  read.get_future().wait();
  found.set_value();
}

}  // namespace
}  // namespace muster
