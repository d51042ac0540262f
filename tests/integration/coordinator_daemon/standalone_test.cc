// A local run with real agents, shims and ranks.
#include "coordinator/daemon/standalone.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>

#include "common/io/log_frame.h"
#include "coordinator/daemon/local_archive.h"
#include "coordinator/daemon/local_jobs.h"
#include "muster/v1/job.grpc.pb.h"
#include "muster/v1/node.grpc.pb.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class StandaloneTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "/muster-standalone-XXXXXX";
    directory_ = mkdtemp(path.data());
    // Leases of tests must not meet those of the machine.
    fs::create_directory(directory_ + "/leases");
    ::setenv("MUSTER_LEASE_DIR", (directory_ + "/leases").c_str(), 1);
  }
  void TearDown() override {
    standalone_.reset();
    ::unsetenv("MUSTER_LEASE_DIR");
    fs::remove_all(directory_);
  }

  absl::Status Start(const std::vector<std::pair<std::string, uint32_t>>& hosts,
                     const std::string& folder = "/local") {
    StandaloneOptions options;
    for (const auto& [name, slots] : hosts) {
      v1::HostEntry& host = *options.hosts.Add();
      host.set_host(name);
      host.set_slot_count(slots);
      host.set_source("hostfile:1");
    }
    hosts_ = options.hosts;
    options.directory = directory_ + folder;
    options.agent_program = AGENT_PROGRAM;
    options.max_agents = 8;
    options.on_trouble = [this](const std::string& message) {
      std::lock_guard lock(mutex_);
      troubles_.push_back(message);
    };
    absl::StatusOr<std::unique_ptr<Standalone>> started = Standalone::Start(std::move(options));
    if (!started.ok()) return started.status();
    standalone_ = *std::move(started);
    jobs_ = v1::JobService::NewStub(standalone_->channel());
    return absl::OkStatus();
  }
  std::unique_ptr<grpc::ClientContext> Context() {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(40));
    return context;
  }
  v1::Job Submit(const std::vector<std::string>& command) {
    v1::SubmitJobRequest request;
    request.set_request_id("once");
    v1::JobSpec& spec = *request.mutable_spec();
    spec.set_name("test");
    *spec.mutable_hosts() = hosts_;
    spec.mutable_program()->set_kind(v1::Program::COMMAND);
    spec.mutable_program()->set_target(command[0]);
    for (size_t i = 1; i < command.size(); ++i) spec.mutable_program()->add_args(command[i]);
    spec.set_working_directory("/");
    spec.mutable_grace()->set_seconds(1);
    spec.mutable_start_timeout()->set_seconds(20);
    spec.mutable_on_coordinator_loss()->mutable_stop_after()->set_seconds(
        Standalone::kStopAfter.count());
    v1::Job job;
    const auto context = Context();
    const grpc::Status status = jobs_->SubmitJob(context.get(), request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
  }
  v1::Job AwaitEnd(const std::string& job_id) {
    v1::WatchJobRequest request;
    request.set_job_id(job_id);
    const auto context = Context();
    const auto stream = jobs_->WatchJob(context.get(), request);
    v1::WatchJobResponse response;
    v1::Job last;
    while (stream->Read(&response)) last = response.job();
    EXPECT_TRUE(stream->Finish().ok());
    return last;
  }
  // Payload of all frames of one rank.
  std::string Output(v1::JobService::Stub& stub, const std::string& job_id, uint32_t rank) {
    v1::ReadLogsRequest request;
    request.set_job_id(job_id);
    request.set_follow(true);
    request.add_ranks(rank);
    const auto context = Context();
    const auto stream = stub.ReadLogs(context.get(), request);
    v1::ReadLogsResponse response;
    FrameReader frames;
    std::string text;
    while (stream->Read(&response)) {
      frames.Feed(response.data());
      while (const std::optional<Frame> frame = frames.Next()) {
        if (frame->kind == FrameKind::kStdout) text += frame->payload;
      }
    }
    EXPECT_TRUE(stream->Finish().ok());
    EXPECT_TRUE(frames.ended());
    return text;
  }
  // Process of the agent of a node of this test.
  pid_t AgentPid(const std::string& node_id) {
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "cmdline", std::ios::binary);
      std::stringstream words;
      words << file.rdbuf();
      const std::string all = words.str();
      if (all.find(std::string("--node-id\0", 10) + node_id + '\0') != std::string::npos &&
          all.find(standalone_->folder()) != std::string::npos) {
        return std::stoi(entry.path().filename().string());
      }
    }
    return 0;
  }
  bool Told(const std::string& text) {
    std::lock_guard lock(mutex_);
    for (const std::string& trouble : troubles_) {
      if (trouble.find(text) != std::string::npos) return true;
    }
    return false;
  }

  std::string directory_;
  google::protobuf::RepeatedPtrField<v1::HostEntry> hosts_;
  std::mutex mutex_;
  std::vector<std::string> troubles_;
  std::unique_ptr<Standalone> standalone_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
};

TEST_F(StandaloneTest, RunsAJobAndKeepsWhatItWrote) {
  ASSERT_TRUE(Start({{"node-1", 2}, {"node-2", 1}}).ok());
  const v1::Job job = Submit({"/bin/sh", "-c", "echo rank $RANK of $WORLD_SIZE on $MUSTER_NODE"});
  const v1::Job end = AwaitEnd(job.job_id());
  EXPECT_EQ(end.state(), v1::Job::SUCCEEDED) << end.reason();
  EXPECT_EQ(end.exit_code(), 0);
  EXPECT_EQ(Output(*jobs_, job.job_id(), 2), "rank 2 of 3 on node-2\n");

  const std::string folder = standalone_->folder();
  standalone_->Stop();
  EXPECT_EQ(AgentPid("node-1"), 0);
  EXPECT_TRUE(fs::exists(folder + "/nodes/0/agent.err"));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder + "/nodes/0")) {
    EXPECT_TRUE(entry.is_regular_file())
        << entry.path() << ": output is stored, spools are not kept";
  }

  const std::optional<LocalJob> found = FindLocalJob(directory_ + "/local", job.job_id());
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->folder, folder);
  EXPECT_EQ(found->address, "");
  for (int round = 0; round < 2; ++round) {
    const auto archive = LocalArchive::Open(folder);
    ASSERT_TRUE(archive.ok()) << archive.status();
    const auto stub = v1::JobService::NewStub((*archive)->channel());
    v1::GetJobRequest request;
    request.set_job_id(job.job_id());
    v1::Job again;
    const auto context = Context();
    ASSERT_TRUE(stub->GetJob(context.get(), request, &again).ok());
    EXPECT_EQ(again.state(), v1::Job::SUCCEEDED);
    EXPECT_EQ(Output(*stub, job.job_id(), 0), "rank 0 of 3 on node-1\n");
  }
}

TEST_F(StandaloneTest, IsFoundByOthersWhileItRuns) {
  ASSERT_TRUE(Start({{"node-1", 1}}).ok());
  const v1::Job job = Submit({"/bin/sleep", "30"});
  const std::optional<LocalJob> found = FindLocalJob(directory_ + "/local", job.job_id());
  ASSERT_TRUE(found.has_value());
  const auto channel = MakeChannel(found->address);
  ASSERT_TRUE(channel.ok()) << channel.status();
  const auto stub = v1::JobService::NewStub(*channel);
  v1::CancelJobRequest request;
  request.set_job_id(job.job_id());
  v1::Job cancelled;
  const auto context = Context();
  context->set_wait_for_ready(true);
  ASSERT_TRUE(stub->CancelJob(context.get(), request, &cancelled).ok());
  EXPECT_EQ(AwaitEnd(job.job_id()).state(), v1::Job::CANCELLED);
  EXPECT_FALSE(LocalArchive::Open(found->folder).ok()) << "its coordinator lives";
}

TEST_F(StandaloneTest, SaysThatAnAgentDied) {
  ASSERT_TRUE(Start({{"node-1", 1}, {"node-2", 1}}).ok());
  const v1::Job job = Submit({"/bin/sleep", "60"});
  v1::WatchJobRequest request;
  request.set_job_id(job.job_id());
  const auto context = Context();
  const auto stream = jobs_->WatchJob(context.get(), request);
  v1::WatchJobResponse response;
  while (stream->Read(&response) && response.job().state() != v1::Job::RUNNING) {
  }
  const pid_t agent = AgentPid("node-2");
  ASSERT_GT(agent, 0);
  ::kill(agent, SIGKILL);
  v1::Job last;
  while (stream->Read(&response)) last = response.job();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(last.state(), v1::Job::FAILED);
  EXPECT_EQ(last.exit_code(), 121);
  EXPECT_TRUE(Told("the agent of node-2 was ended by SIGKILL"));
}

TEST_F(StandaloneTest, StartsNoAgentForAnotherMachine) {
  ASSERT_TRUE(Start({{"node-1", 1}, {"192.0.2.77", 1}}).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(standalone_->folder() + "/nodes"),
                          fs::directory_iterator()),
            1);
}

TEST_F(StandaloneTest, RefusesMoreAgentsThanOneMachineIsMadeFor) {
  std::vector<std::pair<std::string, uint32_t>> hosts;
  for (int i = 0; i < 9; ++i) hosts.emplace_back(fmt::format("node-{}", i), 1);
  const absl::Status status = Start(hosts);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.ToString(), HasSubstr("9 hosts"));
  EXPECT_TRUE(fs::is_empty(directory_ + "/local")) << "nothing is left behind";
}

TEST_F(StandaloneTest, FindsAShorterPathForItsSocket) {
  ASSERT_TRUE(Start({{"node-1", 1}}, "/" + std::string(120, 'x')).ok());
  const v1::Job job = Submit({"/bin/true"});
  EXPECT_EQ(AwaitEnd(job.job_id()).state(), v1::Job::SUCCEEDED);
  const std::optional<LocalJob> found =
      FindLocalJob(directory_ + "/" + std::string(120, 'x'), job.job_id());
  ASSERT_TRUE(found.has_value());
  const std::string socket = found->address.substr(5);
  EXPECT_TRUE(fs::exists(socket));
  standalone_->Stop();
  EXPECT_FALSE(fs::exists(fs::path(socket).parent_path()));
}

TEST_F(StandaloneTest, ShowsACutOffJobAsLost) {
  ASSERT_TRUE(Start({{"node-1", 1}}).ok());
  const v1::Job job = Submit({"/bin/sleep", "60"});
  // As if this process had been killed: the folder as it is now.
  const std::string copy = directory_ + "/copy";
  fs::create_directory(copy);
  for (const fs::directory_entry& entry : fs::directory_iterator(standalone_->folder())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("store.db")) fs::copy(entry.path(), copy + "/" + name);
  }
  standalone_->Stop(std::chrono::milliseconds(3000));
  const auto archive = LocalArchive::Open(copy);
  ASSERT_TRUE(archive.ok()) << archive.status();
  const auto stub = v1::JobService::NewStub((*archive)->channel());
  v1::GetJobRequest request;
  request.set_job_id(job.job_id());
  v1::Job seen;
  const auto context = Context();
  ASSERT_TRUE(stub->GetJob(context.get(), request, &seen).ok());
  EXPECT_EQ(seen.state(), v1::Job::FAILED);
  EXPECT_THAT(seen.reason(), HasSubstr("killed"));
}

}  // namespace
}  // namespace muster
