// A coordinator with real gRPC inside this process, and agents that a test speaks for.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/version.h"
#include "common/io/log_frame.h"
#include "coordinator/daemon/coordinator.h"
#include "muster/v1/agent.grpc.pb.h"
#include "muster/v1/job.grpc.pb.h"
#include "muster/v1/node.grpc.pb.h"

namespace muster {

// Every call of a test ends by then, come what may.
inline std::chrono::system_clock::time_point TestDeadline() {
  return std::chrono::system_clock::now() + std::chrono::seconds(20);
}

inline std::unique_ptr<grpc::ClientContext> MakeContext() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(TestDeadline());
  return context;
}

// One agent: a Session stream and, once `OpenUpload` was called, an UploadLogs stream.
class TestAgent {
 public:
  using SessionStream = grpc::ClientReaderWriter<v1::AgentMessage, v1::CoordinatorMessage>;
  using UploadStream = grpc::ClientReaderWriter<v1::UploadLogsRequest, v1::UploadLogsResponse>;

  TestAgent(std::shared_ptr<grpc::Channel> channel, std::string node_id)
      : stub_(v1::AgentService::NewStub(channel)), node_id_(std::move(node_id)) {
    session_context_ = MakeContext();
    session_ = stub_->Session(session_context_.get());
  }
  ~TestAgent() {
    session_context_->TryCancel();
    if (upload_context_) upload_context_->TryCancel();
    if (session_) FinishSession();
    if (upload_) FinishUpload();
  }

  // Says hello and waits for welcome and snapshot.
  void Join() {
    ASSERT_TRUE(SayHello());
    const v1::CoordinatorMessage welcome = Read();
    ASSERT_TRUE(welcome.has_welcome());
    session_id_ = welcome.welcome().session_id();
    snapshot_ = Read();
    ASSERT_TRUE(snapshot_.has_snapshot());
  }

  bool SayHello() {
    v1::AgentMessage message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_node_id(node_id_);
    hello.set_agent_instance_id("instance-1");
    hello.set_boot_id("boot-1");
    hello.set_journal_id("journal-1");
    hello.mutable_version()->set_major(kProtocolMajor);
    hello.mutable_facts()->set_hostname(node_id_);
    hello.mutable_facts()->add_addresses("192.0.2.1");
    for (uint32_t slot = 0; slot < 4; ++slot) hello.mutable_facts()->add_slots(slot);
    return session_->Write(message);
  }

  // The next message; an empty one at the end of the stream.
  v1::CoordinatorMessage Read() {
    v1::CoordinatorMessage message;
    if (!session_->Read(&message)) message.Clear();
    return message;
  }

  // Reads on until `desired` is asked for; the snapshot counts as well.
  v1::Assignment AwaitAssignment(v1::Assignment::Desired desired) {
    for (const v1::Assignment& assignment : snapshot_.snapshot().assignments()) {
      if (assignment.desired() == desired) return assignment;
    }
    for (;;) {
      const v1::CoordinatorMessage message = Read();
      if (message.body_case() == v1::CoordinatorMessage::BODY_NOT_SET) {
        ADD_FAILURE() << "the stream ended";
        return {};
      }
      if (message.assignment().desired() == desired) return message.assignment();
    }
  }

  // Sends one event; `fill` sets its body.
  void Tell(const v1::AttemptKey& key, const std::function<void(v1::Event&)>& fill) {
    v1::AgentMessage message;
    v1::Event& event = *message.mutable_events()->add_events();
    event.set_seq(++event_seq_);
    *event.mutable_key() = key;
    fill(event);
    ASSERT_TRUE(session_->Write(message));
  }

  // Takes the attempt to RUNNING with every rank started; returns its key.
  v1::AttemptKey RunRanks(uint32_t ranks) {
    const v1::AttemptKey key = AwaitAssignment(v1::Assignment::PREPARED).key();
    Tell(key, [](v1::Event& event) {
      event.mutable_prepared()->add_addresses("192.0.2.1");
      event.mutable_prepared()->set_rendezvous_port(29500);
    });
    AwaitAssignment(v1::Assignment::RUNNING);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      Tell(key, [&](v1::Event& event) {
        event.mutable_rank_started()->set_rank(rank);
        event.mutable_rank_started()->set_pid(1000 + static_cast<int>(rank));
      });
    }
    return key;
  }

  void ExitRank(const v1::AttemptKey& key, uint32_t rank, int code = 0) {
    Tell(key, [&](v1::Event& event) {
      event.mutable_rank_exited()->set_rank(rank);
      event.mutable_rank_exited()->mutable_status()->set_exit_code(code);
    });
  }
  void CloseLog(const v1::AttemptKey& key, uint32_t rank, uint64_t size) {
    Tell(key, [&](v1::Event& event) {
      event.mutable_rank_log_closed()->set_rank(rank);
      event.mutable_rank_log_closed()->set_size(size);
    });
  }
  void StopAttempt(const v1::AttemptKey& key) {
    Tell(key, [](v1::Event& event) { event.mutable_attempt_stopped(); });
  }

  // Opens the log connection for these ranks and returns the first answer.
  v1::UploadLogsResponse OpenUpload(const v1::AttemptKey& key, const std::vector<uint32_t>& ranks) {
    upload_context_ = MakeContext();
    upload_ = stub_->UploadLogs(upload_context_.get());
    v1::UploadLogsRequest request;
    request.mutable_hello()->set_node_id(node_id_);
    request.mutable_hello()->set_session_id(session_id_);
    for (const uint32_t rank : ranks) {
      v1::LogFile& file = *request.mutable_hello()->add_files();
      *file.mutable_key() = key;
      file.set_rank(rank);
    }
    EXPECT_TRUE(upload_->Write(request));
    return ReadUpload();
  }
  v1::UploadLogsResponse ReadUpload() {
    v1::UploadLogsResponse response;
    if (!upload_->Read(&response)) response.Clear();
    return response;
  }
  bool SendChunk(const v1::AttemptKey& key, uint32_t rank, uint64_t offset, const std::string& data,
                 uint64_t zeros = 0) {
    v1::UploadLogsRequest request;
    *request.mutable_chunk()->mutable_file()->mutable_key() = key;
    request.mutable_chunk()->mutable_file()->set_rank(rank);
    request.mutable_chunk()->set_offset(offset);
    request.mutable_chunk()->set_data(data);
    request.mutable_chunk()->set_zeros(zeros);
    return upload_->Write(request);
  }
  // Reads on until the file has `size` committed bytes.
  void AwaitCommitted(uint32_t rank, uint64_t size) {
    uint64_t committed = 0;
    while (committed < size) {
      const v1::UploadLogsResponse response = ReadUpload();
      ASSERT_GT(response.committed_size(), 0) << "the stream ended";
      for (const v1::CommittedLog& log : response.committed()) {
        if (log.file().rank() == rank) committed = log.committed_size();
      }
    }
    EXPECT_EQ(committed, size);
  }
  void Upload(const v1::AttemptKey& key, uint32_t rank, uint64_t offset, const std::string& data) {
    ASSERT_TRUE(SendChunk(key, rank, offset, data));
    AwaitCommitted(rank, offset + data.size());
  }

  grpc::Status FinishSession() {
    while (Read().body_case() != v1::CoordinatorMessage::BODY_NOT_SET) {
    }
    const grpc::Status status = session_->Finish();
    session_.reset();
    return status;
  }
  grpc::Status FinishUpload() {
    while (ReadUpload().committed_size() > 0) {
    }
    const grpc::Status status = upload_->Finish();
    upload_.reset();
    return status;
  }
  void HangUp() { session_context_->TryCancel(); }

  SessionStream& session() { return *session_; }
  UploadStream& upload() { return *upload_; }
  const std::string& session_id() const { return session_id_; }

 private:
  std::unique_ptr<v1::AgentService::Stub> stub_;
  const std::string node_id_;
  std::string session_id_;
  v1::CoordinatorMessage snapshot_;
  uint64_t event_seq_ = 0;
  std::unique_ptr<grpc::ClientContext> session_context_;
  std::unique_ptr<SessionStream> session_;
  std::unique_ptr<grpc::ClientContext> upload_context_;
  std::unique_ptr<UploadStream> upload_;
};

// A folder with a coordinator in it.
class RpcWorld : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "/muster-rpc-XXXXXX";
    folder_ = mkdtemp(path.data());
    StartCoordinator();
  }
  void TearDown() override {
    agents_.clear();
    coordinator_.reset();
    std::filesystem::remove_all(folder_);
  }

  virtual CoordinatorConfig Config() {
    CoordinatorConfig config;
    config.directory = folder_;
    config.durability = CoordinatorConfig::Durability::kBestEffort;
    config.core.heartbeat_interval = std::chrono::seconds(1);
    config.core.lease_ttl = lease_ttl_;
    return config;
  }
  void StartCoordinator() {
    absl::StatusOr<std::unique_ptr<Coordinator>> started = Coordinator::Start(Config());
    ASSERT_TRUE(started.ok()) << started.status();
    coordinator_ = *std::move(started);
    jobs_ = v1::JobService::NewStub(coordinator_->InProcessChannel());
    nodes_ = v1::NodeService::NewStub(coordinator_->InProcessChannel());
  }

  TestAgent& AddAgent(const std::string& node_id) {
    agents_.push_back(std::make_unique<TestAgent>(coordinator_->InProcessChannel(), node_id));
    agents_.back()->Join();
    return *agents_.back();
  }

  // A job of `slots` ranks on each of `hosts`, tried `attempts` times.
  v1::Job Submit(const std::vector<std::string>& hosts, uint32_t slots, uint32_t attempts = 1) {
    v1::SubmitJobRequest request;
    request.set_request_id(fmt::format("request-{}", ++requests_));
    request.mutable_spec()->set_name("test");
    for (const std::string& host : hosts) {
      v1::HostEntry& entry = *request.mutable_spec()->add_hosts();
      entry.set_host(host);
      entry.set_slot_count(slots);
      entry.set_source("hostfile:1");
    }
    if (attempts > 1) request.mutable_spec()->mutable_restart()->set_max_attempts(attempts);
    request.mutable_spec()->mutable_program()->set_kind(v1::Program::COMMAND);
    request.mutable_spec()->mutable_program()->set_target("true");
    request.mutable_spec()->set_working_directory("/");
    v1::Job job;
    const auto context = MakeContext();
    const grpc::Status status = jobs_->SubmitJob(context.get(), request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
  }

  // Watches until the job has ended and returns the last whole view of its state.
  v1::Job::State AwaitEnd(const std::string& job_id) {
    v1::WatchJobRequest request;
    request.set_job_id(job_id);
    const auto context = MakeContext();
    const auto stream = jobs_->WatchJob(context.get(), request);
    v1::WatchJobResponse response;
    v1::Job::State state = v1::Job::STATE_UNSPECIFIED;
    while (stream->Read(&response)) state = response.job().state();
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return state;
  }

  std::string folder_;
  std::chrono::milliseconds lease_ttl_{5000};
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::NodeService::Stub> nodes_;
  std::vector<std::unique_ptr<TestAgent>> agents_;
  int requests_ = 0;
};

// A frame file with one stdout frame per line.
inline std::string FrameFile(const std::vector<std::string>& lines) {
  std::string bytes;
  for (const std::string& line : lines) AppendFrame(bytes, FrameKind::kStdout, 1, line);
  return bytes;
}

}  // namespace muster
