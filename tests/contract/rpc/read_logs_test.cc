// ReadLogs against the whole coordinator.
#include <gmock/gmock.h>

#include <thread>

#include "tests/contract/rpc/read_logs_fixture.h"

namespace muster {
namespace {

TEST_F(ReadLogsTest, ReturnsWhatIsStored) {
  Run();
  agent_->Upload(key_, 0, 0, FrameFile({"zero\n"}));
  agent_->Upload(key_, 1, 0, FrameFile({"one\n"}));
  const ReadResult result = Read(Request(false));
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.bytes.at(0), FrameFile({"zero\n"}));
  EXPECT_EQ(result.bytes.at(1), FrameFile({"one\n"}));
  EXPECT_EQ(result.missing.size(), 2u);
}

TEST_F(ReadLogsTest, ReturnsOnlyTheRanksAskedFor) {
  Run();
  agent_->Upload(key_, 0, 0, "0");
  agent_->Upload(key_, 1, 0, "1");
  v1::ReadLogsRequest request = Request(false);
  request.add_ranks(1);
  request.add_ranks(1);
  const ReadResult result = Read(request);
  EXPECT_EQ(result.bytes.size(), 1u);
  EXPECT_EQ(result.bytes.at(1), "1");
  request.add_ranks(9);
  EXPECT_EQ(Read(request).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ReadLogsTest, FindsNoLogsOfWhatDoesNotExist) {
  Run();
  v1::ReadLogsRequest request = Request(false);
  request.set_attempt(2);
  EXPECT_EQ(Read(request).status.error_code(), grpc::StatusCode::NOT_FOUND);
  request.set_job_id("nothing");
  EXPECT_EQ(Read(request).status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ReadLogsTest, BeginsNearTheEndAtAFrame) {
  Run();
  std::vector<std::string> lines;
  for (int i = 0; i < 1000; ++i) lines.push_back(fmt::format("line {}\n", i));
  const std::string file = FrameFile(lines);
  agent_->Upload(key_, 0, 0, file);
  v1::ReadLogsRequest request = Request(false);
  request.add_ranks(0);
  request.set_tail_bytes(200);
  const ReadResult result = Read(request);
  ASSERT_TRUE(result.status.ok());
  const std::string& tail = result.bytes.at(0);
  EXPECT_LE(tail.size(), 200u);
  EXPECT_GE(tail.size(), 150u);
  FrameReader frames;
  frames.Feed(tail);
  std::string text;
  while (const std::optional<Frame> frame = frames.Next()) text += frame->payload;
  EXPECT_FALSE(frames.corrupt());
  EXPECT_THAT(text, testing::EndsWith("line 998\nline 999\n"));
}

TEST_F(ReadLogsTest, TellsZerosByTheirNumberToThoseWhoAsk) {
  Run();
  const std::string file = FrameFile({"first\n"});
  ASSERT_TRUE(agent_->SendChunk(key_, 0, 0, file, 5'000'000));
  agent_->AwaitCommitted(0, file.size() + 5'000'000);
  agent_->Upload(key_, 0, file.size() + 5'000'000, "end");
  v1::ReadLogsRequest request = Request(false);
  request.add_ranks(0);
  const std::string whole = file + std::string(5'000'000, '\0') + "end";
  ReadResult result = Read(request);
  EXPECT_TRUE(result.bytes.at(0) == whole);
  EXPECT_EQ(result.told_zeros, 0u);
  request.set_sparse(true);
  result = Read(request);
  EXPECT_TRUE(result.bytes.at(0) == whole);
  EXPECT_GT(result.told_zeros, 4'900'000u);
  v1::LogPosition& from = *request.add_from();
  from.set_attempt(1);
  from.set_offset(1'000'000);
  result = Read(request);
  EXPECT_EQ(result.first_offset.at(0), 1'000'000u);
  EXPECT_TRUE(result.bytes.at(0) == whole.substr(1'000'000));
}

TEST_F(ReadLogsTest, FollowsToTheEndOfTheJob) {
  Run();
  agent_->Upload(key_, 0, 0, "before ");
  ReadResult result;
  std::thread reader([&] { result = Read(Request(true)); });
  agent_->Upload(key_, 0, 7, "after");
  agent_->Upload(key_, 1, 0, "other");
  EndJob(12, 5);
  reader.join();
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.bytes.at(0), "before after");
  EXPECT_EQ(result.bytes.at(1), "other");
  EXPECT_EQ(result.missing.at(0), 0u);
}

TEST_F(ReadLogsTest, WaitsForBytesThatAreStillOnTheirWay) {
  Run();
  agent_->Upload(key_, 0, 0, "1234");
  EndJob(10, 0);
  ASSERT_EQ(AwaitEnd(job_), v1::Job::SUCCEEDED);
  ReadResult result;
  std::thread reader([&] { result = Read(Request(true)); });
  agent_->Upload(key_, 0, 4, "567890");
  reader.join();
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.bytes.at(0), "1234567890");
  EXPECT_EQ(result.missing.at(0), 0u);
}

TEST_F(ReadLogsTest, FollowsAJobThatStillWaits) {
  job_ = Submit({"node-1"}, 2).job_id();
  ReadResult result;
  std::thread reader([&] { result = Read(Request(true)); });
  agent_ = &AddAgent("node-1");
  key_ = agent_->RunRanks(2);
  agent_->OpenUpload(key_, {0, 1});
  agent_->Upload(key_, 0, 0, "abc");
  EndJob(3, 0);
  reader.join();
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.bytes.at(0), "abc");
}

TEST_F(ReadLogsTest, EndsAtOnceForAJobThatNeverRan) {
  job_ = Submit({"node-1"}, 2).job_id();
  EXPECT_TRUE(Read(Request(false)).status.ok());
  v1::CancelJobRequest cancel;
  cancel.set_job_id(job_);
  v1::Job cancelled;
  const auto context = MakeContext();
  ASSERT_TRUE(jobs_->CancelJob(context.get(), cancel, &cancelled).ok());
  const ReadResult result = Read(Request(true));
  EXPECT_TRUE(result.status.ok());
  EXPECT_TRUE(result.bytes.empty());
}

TEST_F(ReadLogsTest, CountsWhatIsMissingOfALostNode) {
  Run();
  agent_->Upload(key_, 0, 0, "1234");
  agent_->ExitRank(key_, 0, 1);
  agent_->CloseLog(key_, 0, 10);
  // Until the event has arrived; then the node goes for good.
  agent_->AwaitAssignment(v1::Assignment::STOPPED);
  agent_->HangUp();
  const ReadResult result = Read(Request(true));
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.bytes.at(0), "1234");
  EXPECT_EQ(result.missing.at(0), 6u);
  EXPECT_EQ(result.missing.at(1), 0u) << "nobody knows how much there was";
}

TEST_F(ReadLogsTest, IsFairToAllRanks) {
  Run();
  const std::string chunk(kMaxLogChunkBytes, 'x');
  for (uint64_t i = 0; i < 20; ++i) agent_->Upload(key_, 0, i * chunk.size(), chunk);
  agent_->Upload(key_, 1, 0, "short");
  const ReadResult result = Read(Request(false));
  ASSERT_GT(result.order.size(), 10u);
  const auto short_one = std::find(result.order.begin(), result.order.end(), 1u);
  EXPECT_LT(short_one - result.order.begin(), 3) << "it does not wait for the long one";
}

TEST_F(ReadLogsTest, DoesNotHoldAnythingUpWhenTheClientDoesNotRead) {
  Run();
  const auto context = MakeContext();
  const auto stream = jobs_->ReadLogs(context.get(), Request(true));
  const std::string chunk(kMaxLogChunkBytes, 'x');
  const uint64_t chunks = 128;
  for (uint64_t i = 0; i < chunks; ++i) {
    ASSERT_TRUE(agent_->SendChunk(key_, 0, i * chunk.size(), chunk));
  }
  agent_->AwaitCommitted(0, chunks * chunk.size());
  EndJob(chunks * chunk.size(), 0);
  EXPECT_EQ(AwaitEnd(job_), v1::Job::SUCCEEDED);
  // It finds everything when it reads at last.
  uint64_t bytes = 0;
  v1::ReadLogsResponse response;
  while (stream->Read(&response)) bytes += response.data().size();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(bytes, chunks * chunk.size());
}

TEST_F(ReadLogsTest, GoesThroughAttemptsOneAfterTheOther) {
  agent_ = &AddAgent("node-1");
  job_ = Submit({"node-1"}, 1, 3).job_id();
  for (int attempt = 1; attempt <= 3; ++attempt) {
    key_ = agent_->RunRanks(1);
    agent_->ExitRank(key_, 0, 1);
    agent_->CloseLog(key_, 0, 0);
    agent_->StopAttempt(key_);
  }
  EXPECT_EQ(AwaitEnd(job_), v1::Job::FAILED);
  const auto attempts = [this](const v1::ReadLogsRequest& request) {
    std::vector<uint32_t> seen;
    const auto context = MakeContext();
    const auto stream = jobs_->ReadLogs(context.get(), request);
    for (v1::ReadLogsResponse response; stream->Read(&response);) {
      if (response.end()) seen.push_back(response.attempt());
    }
    EXPECT_TRUE(stream->Finish().ok());
    return seen;
  };
  using ::testing::ElementsAre;
  v1::ReadLogsRequest request = Request(true);
  EXPECT_THAT(attempts(request), ElementsAre(3)) << "the newest";
  // Who was cut off in the first attempt, or is slow, misses none.
  request.add_from()->set_attempt(1);
  EXPECT_THAT(attempts(request), ElementsAre(1, 2, 3));
  request.mutable_from(0)->set_attempt(7);
  EXPECT_THAT(attempts(request), ElementsAre(3));
  request.mutable_from(0)->set_attempt(1);
  request.set_follow(false);
  EXPECT_THAT(attempts(request), ElementsAre(3)) << "what is there";
}

TEST_F(ReadLogsTest, EndsWhenTheClientGivesUp) {
  Run();
  for (int i = 0; i < 20; ++i) {
    const auto context = MakeContext();
    const auto stream = jobs_->ReadLogs(context.get(), Request(true));
    context->TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

}  // namespace
}  // namespace muster
