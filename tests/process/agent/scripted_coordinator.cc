#include "tests/process/agent/scripted_coordinator.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/base/version.h"
#include "common/rpc/server.h"

namespace muster {
namespace {

using google::protobuf::util::TimeUtil;

constexpr int kHeartbeatMs = 200;
constexpr int kLeaseMs = 10'000;

AttemptId Id(const v1::AttemptKey& key) { return {JobId(key.job_id()), key.attempt()}; }

}  // namespace

ScriptedCoordinator::ScriptedCoordinator(std::string socket_path) : path_(std::move(socket_path)) {
  Start();
}

ScriptedCoordinator::~ScriptedCoordinator() { Stop(); }

void ScriptedCoordinator::Start() {
  ::unlink(path_.c_str());
  ++epoch_;
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder);
  builder.AddListeningPort(target(), grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  ASSERT_NE(server_, nullptr);
}

void ScriptedCoordinator::Stop() {
  if (!server_) return;
  ShutdownServer(*server_, std::chrono::milliseconds(0));
  server_->Wait();
  server_.reset();
}

void ScriptedCoordinator::Want(v1::Assignment assignment) {
  const std::lock_guard lock(mutex_);
  assignment.set_generation(++generation_);
  wanted_[Id(assignment.key())] = assignment;
  v1::CoordinatorMessage message;
  *message.mutable_assignment() = std::move(assignment);
  SendLocked(message);
}

void ScriptedCoordinator::Forget(const AttemptId& id) {
  const std::lock_guard lock(mutex_);
  wanted_.erase(id);
}

void ScriptedCoordinator::Signal(const AttemptId& id, int signal) {
  const std::lock_guard lock(mutex_);
  v1::CoordinatorMessage message;
  message.mutable_signal()->mutable_key()->set_job_id(id.job.value());
  message.mutable_signal()->mutable_key()->set_attempt(id.attempt);
  message.mutable_signal()->set_signal(signal);
  SendLocked(message);
}

bool ScriptedCoordinator::Wait(const std::function<bool(const State&)>& done,
                               std::chrono::seconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return done(state_); });
}

ScriptedCoordinator::State ScriptedCoordinator::Read() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void ScriptedCoordinator::SendLocked(const v1::CoordinatorMessage& message) {
  if (session_ != nullptr) session_->Write(message);
}

grpc::Status ScriptedCoordinator::Session(grpc::ServerContext*, SessionStream* stream) {
  v1::AgentMessage incoming;
  if (!stream->Read(&incoming) || !incoming.has_hello()) {
    return {grpc::StatusCode::FAILED_PRECONDITION, "expected hello"};
  }
  {
    const std::lock_guard lock(mutex_);
    state_.hellos.push_back(incoming.hello());
    state_.last_hello = Clock::now();
    if (journal_id_ != incoming.hello().journal_id()) {
      if (!journal_id_.empty()) state_.errors.push_back("another journal");
      journal_id_ = incoming.hello().journal_id();
    }
    v1::CoordinatorMessage message;
    v1::Welcome& welcome = *message.mutable_welcome();
    welcome.set_session_id(fmt::format("s{}", ++sessions_));
    welcome.set_coordinator_epoch(epoch_);
    welcome.mutable_version()->set_major(kProtocolMajor);
    welcome.mutable_version()->set_minor(kProtocolMinor);
    *welcome.mutable_heartbeat_interval() = TimeUtil::MillisecondsToDuration(kHeartbeatMs);
    *welcome.mutable_lease_ttl() = TimeUtil::MillisecondsToDuration(kLeaseMs);
    welcome.set_acked_event_seq(state_.events.size());
    stream->Write(message);
    v1::CoordinatorMessage snapshot;
    snapshot.mutable_snapshot();
    for (const auto& [id, assignment] : wanted_)
      *snapshot.mutable_snapshot()->add_assignments() = assignment;
    stream->Write(snapshot);
    session_ = stream;
    state_.connected = true;
    changed_.notify_all();
  }
  while (stream->Read(&incoming)) {
    const std::lock_guard lock(mutex_);
    v1::CoordinatorMessage answer;
    if (incoming.has_events()) {
      OnEventsLocked(incoming.events());
      answer.mutable_event_ack()->set_acked_seq(state_.events.size());
    } else if (incoming.has_heartbeat()) {
      ++state_.heartbeats;
      answer.mutable_heartbeat_ack()->set_sequence(incoming.heartbeat().sequence());
    }
    stream->Write(answer);
    changed_.notify_all();
  }
  const std::lock_guard lock(mutex_);
  if (session_ == stream) {
    session_ = nullptr;
    state_.connected = false;
  }
  changed_.notify_all();
  return grpc::Status::OK;
}

void ScriptedCoordinator::OnEventsLocked(const v1::EventBatch& batch) {
  for (const v1::Event& event : batch.events()) {
    if (event.seq() <= state_.events.size())
      continue;  // Sent again before the acknowledgement arrived.
    if (event.seq() != state_.events.size() + 1) {
      state_.errors.push_back(fmt::format("event {} behind {}", event.seq(), state_.events.size()));
    }
    state_.events.push_back(event);
  }
}

v1::CommittedLog ScriptedCoordinator::CommittedLocked(const v1::LogFile& file) const {
  v1::CommittedLog committed;
  *committed.mutable_file() = file;
  const auto it = state_.logs.find({Id(file.key()), file.rank()});
  if (it != state_.logs.end()) committed.set_committed_size(it->second.size());
  return committed;
}

grpc::Status ScriptedCoordinator::UploadLogs(grpc::ServerContext*, LogStream* stream) {
  v1::UploadLogsRequest incoming;
  while (stream->Read(&incoming)) {
    v1::UploadLogsResponse response;
    {
      const std::lock_guard lock(mutex_);
      if (incoming.has_hello()) {
        for (const v1::LogFile& file : incoming.hello().files())
          *response.add_committed() = CommittedLocked(file);
      } else if (incoming.has_open()) {
        for (const v1::LogFile& file : incoming.open().files())
          *response.add_committed() = CommittedLocked(file);
      } else if (incoming.has_chunk()) {
        const v1::LogChunk& chunk = incoming.chunk();
        std::string& log = state_.logs[{Id(chunk.file().key()), chunk.file().rank()}];
        if (chunk.offset() == log.size()) {
          log += chunk.data();
        } else {
          state_.errors.push_back(
              fmt::format("log offset {} at size {}", chunk.offset(), log.size()));
        }
        *response.add_committed() = CommittedLocked(chunk.file());
      }
      changed_.notify_all();
    }
    stream->Write(response);
  }
  return grpc::Status::OK;
}

}  // namespace muster
