// JobService but for its logs, against the whole coordinator.
#include <gmock/gmock.h>

#include <thread>

#include "common/rpc/limits.h"
#include "tests/contract/rpc/rpc_world.h"

namespace muster {
namespace {

using JobServiceTest = RpcWorld;

TEST_F(JobServiceTest, AnswersTheSameJobForTheSameRequest) {
  const v1::Job first = Submit({"node-1"}, 1);
  --requests_;
  EXPECT_EQ(Submit({"node-1"}, 1).job_id(), first.job_id());
  EXPECT_NE(Submit({"node-1"}, 1).job_id(), first.job_id());
}

TEST_F(JobServiceTest, SaysWhatIsWrongWithASpec) {
  v1::SubmitJobRequest request;
  v1::Job job;
  const auto context = MakeContext();
  const grpc::Status status = jobs_->SubmitJob(context.get(), request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_FALSE(status.error_message().empty());
}

TEST_F(JobServiceTest, RefusesASpecThatIsTooLarge) {
  v1::SubmitJobRequest request;
  request.mutable_spec()->mutable_program()->add_args(std::string(kMaxJobSpecBytes, 'x'));
  v1::Job job;
  const auto context = MakeContext();
  const grpc::Status status = jobs_->SubmitJob(context.get(), request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("at most"));
}

TEST_F(JobServiceTest, RefusesASpecThatWouldTakeTooMuchMemory) {
  v1::SubmitJobRequest request;
  for (int i = 0; i < 400'000; ++i) (void)request.mutable_spec()->add_hosts();
  ASSERT_LT(request.ByteSizeLong(), 1u << 20);
  v1::Job job;
  const auto context = MakeContext();
  const grpc::Status status = jobs_->SubmitJob(context.get(), request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(job.job_id(), "");
}

TEST_F(JobServiceTest, FindsNoJobThatDoesNotExist) {
  v1::GetJobRequest request;
  request.set_job_id("nothing");
  v1::Job job;
  const auto context = MakeContext();
  EXPECT_EQ(jobs_->GetJob(context.get(), request, &job).error_code(), grpc::StatusCode::NOT_FOUND);
  v1::WatchJobRequest watch;
  watch.set_job_id("nothing");
  const auto watch_context = MakeContext();
  const auto stream = jobs_->WatchJob(watch_context.get(), watch);
  v1::WatchJobResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(JobServiceTest, ListsAndPlansAndCancels) {
  const v1::Job job = Submit({"node-1"}, 2);
  v1::ListJobsResponse list;
  const auto list_context = MakeContext();
  ASSERT_TRUE(jobs_->ListJobs(list_context.get(), {}, &list).ok());
  ASSERT_EQ(list.jobs_size(), 1);
  EXPECT_EQ(list.jobs(0).job_id(), job.job_id());

  v1::PlanJobRequest plan_request;
  v1::HostEntry& host = *plan_request.mutable_spec()->add_hosts();
  host.set_host("node-7");
  host.set_slot_count(3);
  plan_request.mutable_spec()->mutable_program()->set_kind(v1::Program::COMMAND);
  plan_request.mutable_spec()->mutable_program()->set_target("true");
  plan_request.mutable_spec()->set_working_directory("/");
  v1::Plan plan;
  const auto plan_context = MakeContext();
  const grpc::Status planned = jobs_->PlanJob(plan_context.get(), plan_request, &plan);
  ASSERT_TRUE(planned.ok()) << planned.error_message();
  EXPECT_EQ(plan.world_size(), 3u);

  v1::CancelJobRequest cancel;
  cancel.set_job_id(job.job_id());
  cancel.set_signal(2);
  v1::Job cancelled;
  const auto cancel_context = MakeContext();
  ASSERT_TRUE(jobs_->CancelJob(cancel_context.get(), cancel, &cancelled).ok());
  EXPECT_EQ(AwaitEnd(job.job_id()), v1::Job::CANCELLED);
}

TEST_F(JobServiceTest, PassesSignalsOn) {
  TestAgent& agent = AddAgent("node-1");
  const v1::Job job = Submit({"node-1"}, 2);
  agent.RunRanks(2);
  v1::SignalJobRequest request;
  request.set_job_id(job.job_id());
  request.set_signal(10);
  v1::SignalJobResponse response;
  // Until the ranks' start has arrived there is nobody to signal.
  grpc::Status status(grpc::StatusCode::FAILED_PRECONDITION, "");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    const auto context = MakeContext();
    status = jobs_->SignalJob(context.get(), request, &response);
  }
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.nodes(), 1u);
  for (;;) {
    const v1::CoordinatorMessage message = agent.Read();
    ASSERT_NE(message.body_case(), v1::CoordinatorMessage::BODY_NOT_SET);
    if (!message.has_signal()) continue;
    EXPECT_EQ(message.signal().signal(), 10);
    break;
  }
}

TEST_F(JobServiceTest, WatchGivesTheWholeJobFirst) {
  const v1::Job job = Submit({"node-1"}, 2);
  v1::WatchJobRequest request;
  request.set_job_id(job.job_id());
  const auto context = MakeContext();
  const auto stream = jobs_->WatchJob(context.get(), request);
  v1::WatchJobResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.job().job_id(), job.job_id());
  EXPECT_EQ(response.job().state(), v1::Job::PENDING);
  context->TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(JobServiceTest, WatchEndsWithTheJob) {
  TestAgent& agent = AddAgent("node-1");
  const v1::Job job = Submit({"node-1"}, 1);
  v1::Job::State state = v1::Job::STATE_UNSPECIFIED;
  std::thread watcher([&] { state = AwaitEnd(job.job_id()); });
  const v1::AttemptKey key = agent.RunRanks(1);
  agent.ExitRank(key, 0, 3);
  agent.CloseLog(key, 0, 0);
  agent.AwaitAssignment(v1::Assignment::STOPPED);
  agent.StopAttempt(key);
  watcher.join();
  EXPECT_EQ(state, v1::Job::FAILED);
}

}  // namespace
}  // namespace muster
