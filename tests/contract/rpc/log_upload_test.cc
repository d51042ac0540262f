// The UploadLogs stream against the whole coordinator.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "common/rpc/limits.h"
#include "tests/contract/rpc/rpc_world.h"

namespace muster {
namespace {

class LogUploadTest : public RpcWorld {
 protected:
  void SetUp() override {
    RpcWorld::SetUp();
    agent_ = &AddAgent("node-1");
    job_ = Submit({"node-1"}, 2).job_id();
    key_ = agent_->RunRanks(2);
  }
  std::string Stored(uint32_t rank) {
    std::ifstream file(fmt::format("{}/logs/{}/1/rank-{:05}.log", folder_, job_, rank),
                       std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  }

  TestAgent* agent_ = nullptr;
  std::string job_;
  v1::AttemptKey key_;
};

TEST_F(LogUploadTest, TellsCommittedSizesFirst) {
  const v1::UploadLogsResponse first = agent_->OpenUpload(key_, {0, 1});
  ASSERT_EQ(first.committed_size(), 2);
  EXPECT_EQ(first.committed(0).committed_size(), 0u);
}

TEST_F(LogUploadTest, StoresBytesAtTheirOffsets) {
  agent_->OpenUpload(key_, {0, 1});
  agent_->Upload(key_, 0, 0, "hello ");
  agent_->Upload(key_, 1, 0, "other");
  agent_->Upload(key_, 0, 6, std::string("world\0\xff", 7));
  EXPECT_EQ(Stored(0), std::string("hello world\0\xff", 13));
  EXPECT_EQ(Stored(1), "other");
}

TEST_F(LogUploadTest, SkipsWhatIsStoredAlready) {
  agent_->OpenUpload(key_, {0});
  agent_->Upload(key_, 0, 0, "0123456789");
  ASSERT_TRUE(agent_->SendChunk(key_, 0, 2, "2345"));
  ASSERT_TRUE(agent_->SendChunk(key_, 0, 5, "56789abc"));
  agent_->AwaitCommitted(0, 13);
  EXPECT_EQ(Stored(0), "0123456789abc");
}

TEST_F(LogUploadTest, EndsOnAGap) {
  agent_->OpenUpload(key_, {0});
  agent_->Upload(key_, 0, 0, "01234");
  ASSERT_TRUE(agent_->SendChunk(key_, 0, 6, "678"));
  EXPECT_EQ(agent_->FinishUpload().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Stored(0), "01234");
}

TEST_F(LogUploadTest, GoesOnWhereItStoppedAfterAReconnect) {
  agent_->OpenUpload(key_, {0});
  agent_->Upload(key_, 0, 0, "01234");
  agent_->upload().WritesDone();
  EXPECT_TRUE(agent_->FinishUpload().ok());
  const v1::UploadLogsResponse first = agent_->OpenUpload(key_, {0});
  ASSERT_EQ(first.committed_size(), 1);
  EXPECT_EQ(first.committed(0).committed_size(), 5u);
  agent_->Upload(key_, 0, 5, "56");
  EXPECT_EQ(Stored(0), "0123456");
}

TEST_F(LogUploadTest, LeavesOutFilesThatTheNodeHasNoBusinessWith) {
  TestAgent& other = AddAgent("node-2");
  v1::AttemptKey unknown = key_;
  unknown.set_attempt(2);
  EXPECT_EQ(other.OpenUpload(key_, {0}).committed_size(), 0) << "it runs on another node";
  EXPECT_EQ(agent_->OpenUpload(unknown, {0}).committed_size(), 0) << "there is no such attempt";
  ASSERT_TRUE(other.SendChunk(key_, 0, 0, "forged"));
  EXPECT_EQ(other.FinishUpload().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Stored(0), "");
}

TEST_F(LogUploadTest, OpensFilesLater) {
  agent_->OpenUpload(key_, {});
  v1::UploadLogsRequest request;
  v1::LogFile& file = *request.mutable_open()->add_files();
  *file.mutable_key() = key_;
  file.set_rank(1);
  ASSERT_TRUE(agent_->upload().Write(request));
  const v1::UploadLogsResponse response = agent_->ReadUpload();
  ASSERT_EQ(response.committed_size(), 1);
  EXPECT_EQ(response.committed(0).file().rank(), 1u);
  agent_->Upload(key_, 1, 0, "late");
}

TEST_F(LogUploadTest, RefusesAnUnknownSession) {
  TestAgent stranger(coordinator_->InProcessChannel(), "node-1");
  stranger.OpenUpload(key_, {0});
  EXPECT_EQ(stranger.FinishUpload().error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(LogUploadTest, RefusesAChunkThatIsTooLarge) {
  agent_->OpenUpload(key_, {0});
  ASSERT_TRUE(agent_->SendChunk(key_, 0, 0, std::string(kMaxLogChunkBytes + 1, 'x')));
  EXPECT_EQ(agent_->FinishUpload().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// Told by the thread that writes and by those that send.
TEST_F(LogUploadTest, SizesNeverGoBack) {
  agent_->OpenUpload(key_, {0});
  constexpr uint64_t kChunks = 20'000;
  std::thread sender([this] {
    for (uint64_t i = 0; i < kChunks; ++i) {
      if (!agent_->SendChunk(key_, 0, i, "x")) return;
    }
  });
  uint64_t committed = 0;
  int backwards = 0;
  while (committed < kChunks) {
    const v1::UploadLogsResponse response = agent_->ReadUpload();
    if (response.committed_size() == 0) break;
    backwards += response.committed(0).committed_size() < committed ? 1 : 0;
    committed = response.committed(0).committed_size();
  }
  sender.join();
  EXPECT_EQ(committed, kChunks);
  EXPECT_EQ(backwards, 0);
}

TEST_F(LogUploadTest, StoresZerosThatWereOnlyTold) {
  agent_->OpenUpload(key_, {0});
  ASSERT_TRUE(agent_->SendChunk(key_, 0, 0, "begin", 3'000'000));
  ASSERT_TRUE(agent_->SendChunk(key_, 0, 3'000'005, "end"));
  agent_->AwaitCommitted(0, 3'000'008);
  EXPECT_EQ(Stored(0), "begin" + std::string(3'000'000, '\0') + "end");
}

TEST_F(LogUploadTest, RefusesMoreZerosThanMayBeOnTheirWay) {
  agent_->OpenUpload(key_, {0});
  ASSERT_TRUE(agent_->SendChunk(key_, 0, 0, "", kMaxUncommittedLogBytes + 1));
  EXPECT_EQ(agent_->FinishUpload().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(LogUploadTest, EndsTheOlderOfTwoUploads) {
  agent_->OpenUpload(key_, {0});
  TestAgent newer(coordinator_->InProcessChannel(), "node-1");
  newer.Join();
  newer.OpenUpload(key_, {0});
  EXPECT_EQ(agent_->FinishUpload().error_code(), grpc::StatusCode::ABORTED);
  newer.Upload(key_, 0, 0, "x");
}

TEST_F(LogUploadTest, StoresManyChunksOfManyFilesInFlight) {
  agent_->OpenUpload(key_, {0, 1});
  const std::string chunk(kMaxLogChunkBytes, 'c');
  uint64_t offset = 0;
  for (int i = 0; i < 64; ++i, offset += chunk.size()) {
    ASSERT_TRUE(agent_->SendChunk(key_, 0, offset, chunk));
    ASSERT_TRUE(agent_->SendChunk(key_, 1, offset, chunk));
  }
  uint64_t committed[2] = {0, 0};
  while (committed[0] < offset || committed[1] < offset) {
    const v1::UploadLogsResponse response = agent_->ReadUpload();
    ASSERT_GT(response.committed_size(), 0);
    for (const v1::CommittedLog& log : response.committed()) {
      EXPECT_GE(log.committed_size(), committed[log.file().rank()]) << "never backwards";
      committed[log.file().rank()] = log.committed_size();
    }
  }
  EXPECT_EQ(Stored(0).size(), offset);
}

class FullDiskTest : public LogUploadTest {
 protected:
  CoordinatorConfig Config() override {
    CoordinatorConfig config = RpcWorld::Config();
    config.on_trouble = [this](const std::string& message) {
      MutexLock lock(mutex_);
      troubles_.push_back(message);
    };
    return config;
  }
  size_t LogTroubles() {
    MutexLock lock(mutex_);
    size_t count = 0;
    for (const std::string& trouble : troubles_) {
      count += trouble.find("output can") == std::string::npos ? 0 : 1;
    }
    return count;
  }

  Mutex mutex_;
  std::vector<std::string> troubles_;
};

TEST_F(FullDiskTest, SendsTheAgentAwayAndGoesOnWhenThereIsSpace) {
  agent_->OpenUpload(key_, {0});
  agent_->Upload(key_, 0, 0, "first");
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{8, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  ASSERT_TRUE(agent_->SendChunk(key_, 0, 5, "and more than fits"));
  const grpc::Status status = agent_->FinishUpload();
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(LogTroubles(), 1u);

  const v1::UploadLogsResponse first = agent_->OpenUpload(key_, {0});
  ASSERT_EQ(first.committed_size(), 1);
  const std::string whole = "firstand more than fits";
  EXPECT_EQ(first.committed(0).committed_size(), 8u) << "what fitted counts";
  agent_->Upload(key_, 0, 8, whole.substr(8));
  EXPECT_EQ(Stored(0), whole);
  EXPECT_EQ(LogTroubles(), 2u);
}

}  // namespace
}  // namespace muster
