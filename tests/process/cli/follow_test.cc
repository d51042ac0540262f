#include "coordinator/cli/follow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "coordinator/cli/exit_status.h"
#include "tests/process/cli/fake_job_service.h"
#include "tests/process/cli/pipes.h"
#include "tests/unit/cli/log_bytes.h"
#include "tests/unit/cli/sample_job.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Code;
using testing::ErrFrame;
using testing::FailedJob;
using testing::FakeJobService;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::OutFrame;
using testing::Pipe;
using testing::ReadFile;
using testing::RunningJob;
using testing::SampleJob;
using testing::SucceededJob;
using testing::TemporaryFolder;

class FollowTest : public ::testing::Test {
 protected:
  FollowTest() {
    options_.job_id = "j-demo";
    options_.output_fd = out_.write_fd();
    options_.patience = std::chrono::milliseconds(500);
  }

  // Follows on another thread, so that the test can play the job.
  void Start() {
    thread_ = std::thread([this] {
      Client client = service_.MakeClient();
      Reporter reporter(err_.write_fd());
      result_ = FollowJob(client, signals_, reporter, options_);
      reporter.Flush(std::chrono::seconds(5));
    });
  }
  FollowResult Finish() {
    thread_.join();
    messages_ = err_.Read();
    return result_;
  }

  Pipe out_;
  Pipe err_;
  SignalWatcher signals_;
  FakeJobService service_;
  FollowOptions options_;
  FollowResult result_;
  std::string messages_;
  std::thread thread_;
};

TEST_F(FollowTest, SuccessShowsOutputAndSummary) {
  service_.Publish(RunningJob());
  service_.Append(0, OutFrame("hello\n"));
  Start();
  EXPECT_EQ(out_.ReadBytes(17), "[0@node-1] hello\n");
  service_.Append(3, OutFrame("bye"));
  service_.EndLogs();
  service_.Publish(SucceededJob());
  EXPECT_EQ(Finish().exit_status, 0);
  EXPECT_EQ(out_.Read(), "[3@node-2] bye\n");
  EXPECT_THAT(messages_, AllOf(HasSubstr("job j-demo succeeded: 4 ranks on 2 nodes"),
                               HasSubstr("0 bytes lost")));
}

TEST_F(FollowTest, OutputOfAJobOfOnesOwnBeginsWithTheFirstAttempt) {
  service_.Publish(SucceededJob());
  service_.EndLogs();
  Start();
  EXPECT_EQ(Finish().exit_status, 0);
  ASSERT_EQ(service_.log_request().from_size(), 1);
  EXPECT_EQ(service_.log_request().from(0).attempt(), 1u);
}

TEST_F(FollowTest, OutputOfAnothersJobBeginsWithTheNewestAttempt) {
  service_.Publish(SucceededJob());
  service_.EndLogs();
  options_.owns_job = false;
  Start();
  EXPECT_EQ(Finish().exit_status, 0);
  EXPECT_EQ(service_.log_request().from_size(), 0);
}

TEST_F(FollowTest, FailureEndsWithTheReport) {
  service_.Publish(RunningJob());
  service_.Append(2, ErrFrame("Traceback\nValueError: demo\n"));
  service_.EndLogs();
  service_.Publish(FailedJob(Code(5), 5));
  options_.log_command = "coordinator logs j-demo";
  Start();
  EXPECT_EQ(Finish().exit_status, 5);
  EXPECT_THAT(messages_, AllOf(HasSubstr("rank 2 on node-2 (pid 102) exited with code 5\n"),
                               HasSubstr("muster:   | ValueError: demo\n"),
                               HasSubstr("coordinator logs j-demo --rank 2\n"),
                               HasSubstr("3 other ranks were stopped because of it\n")));
}

TEST_F(FollowTest, FailureIsToldBeforeTheOthersAreGone) {
  v1::Job stopping = FailedJob(Code(5), 0);
  stopping.set_state(v1::Job::STOPPING);
  stopping.set_cause(v1::Job::CAUSE_UNSPECIFIED);
  stopping.clear_end_time();
  for (uint32_t rank : {0, 1, 3}) {
    stopping.mutable_ranks(static_cast<int>(rank))->set_state(v1::JobRank::RUNNING);
  }
  service_.Publish(stopping);
  service_.Append(2, ErrFrame("ValueError: demo\n"));
  Start();
  const std::string early = err_.ReadBytes(100);
  EXPECT_THAT(early, HasSubstr("rank 2 on node-2 (pid 102) exited with code 5\n"));
  service_.EndLogs();
  service_.Publish(FailedJob(Code(5), 5));
  EXPECT_EQ(Finish().exit_status, 5);
  EXPECT_THAT(early + messages_, HasSubstr("stopping 3 other ranks"));
}

TEST_F(FollowTest, WritesFilesOfRanks) {
  TemporaryFolder folder;
  options_.log_dir = folder.path();
  service_.Publish(RunningJob());
  service_.Append(1, OutFrame("one\n"));
  service_.EndLogs();
  service_.Publish(SucceededJob());
  Start();
  EXPECT_EQ(Finish().exit_status, 0);
  EXPECT_EQ(ReadFile(folder.path() + "/latest/rank_1.log"), "one\n");
  EXPECT_THAT(messages_, HasSubstr(folder.path() + "/j-demo/rank_N.log"));
}

TEST_F(FollowTest, SaysWhatItWaitsFor) {
  service_.Publish(SampleJob());
  Start();
  const std::string waiting = err_.ReadBytes(20);
  EXPECT_THAT(waiting, HasSubstr("waiting for 2 of 2 hosts: node-1, node-2"));
  service_.EndLogs();
  service_.Publish(SucceededJob());
  Finish();
}

TEST_F(FollowTest, StalledReaderHoldsUpNothingButTheEnd) {
  service_.Publish(RunningJob());
  const std::string lines(1'000'000, '\n');
  service_.Append(0, OutFrame(lines));
  service_.EndLogs();
  service_.Publish(SucceededJob());
  Start();
  EXPECT_EQ(Finish().exit_status, 0);
  EXPECT_THAT(messages_, HasSubstr("stdout was not read for 500ms"));
  EXPECT_THAT(messages_, HasSubstr("lines"));
}

TEST_F(FollowTest, ClosedReaderIsToldOnce) {
  out_.CloseRead();
  service_.Publish(RunningJob());
  service_.Append(0, OutFrame("a\n"));
  Start();
  EXPECT_THAT(err_.ReadBytes(10), HasSubstr("stdout was closed"));
  service_.Append(0, OutFrame("b\n"));
  service_.EndLogs();
  service_.Publish(SucceededJob());
  EXPECT_EQ(Finish().exit_status, 0);
  EXPECT_THAT(messages_, Not(HasSubstr("stdout was closed")));
}

TEST_F(FollowTest, GoneCoordinatorHasAStatusOfItsOwn) {
  service_.Publish(RunningJob());
  service_.Append(0, OutFrame("a\n"));
  Start();
  out_.ReadBytes(13);
  service_.Break();
  EXPECT_EQ(Finish().exit_status, kExitNoCoordinator);
  EXPECT_THAT(messages_, HasSubstr("lost the coordinator"));
}

TEST_F(FollowTest, ComesBackAfterAShortLoss) {
  options_.reconnect = std::chrono::seconds(10);
  service_.Publish(RunningJob());
  service_.Append(0, OutFrame("a\n"));
  Start();
  EXPECT_EQ(out_.ReadBytes(13), "[0@node-1] a\n");
  service_.Break();
  service_.Append(0, OutFrame("b\n"));
  EXPECT_EQ(out_.ReadBytes(13), "[0@node-1] b\n");
  service_.EndLogs();
  service_.Publish(SucceededJob());
  EXPECT_EQ(Finish().exit_status, 0);
  EXPECT_THAT(messages_, HasSubstr("connected to the coordinator again"));
}

}  // namespace
}  // namespace muster
