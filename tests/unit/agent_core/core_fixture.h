// One agent core in a test that plays everybody else: coordinator, shims, disk and time.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/agent_core.h"
#include "tests/testing/fake_node_inspector.h"
#include "tests/testing/fake_rendezvous.h"
#include "tests/testing/fake_user_gate.h"
#include "tests/testing/memory_agent_store.h"
#include "tests/testing/recording_launcher.h"
#include "tests/testing/sim_executor.h"

namespace muster::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Keeps what the agent sends.
class RecordingSink final : public AgentSessionSink {
 public:
  void Send(v1::AgentMessage message) override { sent.push_back(std::move(message)); }
  void Close(absl::Status status) override { closed = status; }

  std::vector<v1::AgentMessage> sent;
  std::optional<absl::Status> closed;
};

class RecordingObserver final : public AgentObserver {
 public:
  void OnNotice(Severity severity, const std::string& line) override {
    if (severity == Severity::kError) errors.push_back(line);
  }
  void OnSession(const std::string& session_id) override { Note("session " + session_id); }
  void OnSessionLost() override { Note("session lost"); }
  void OnAttempt(const AttemptId& id, const std::vector<uint32_t>& ranks) override {
    Note(fmt::format("attempt {} ranks {}", id.attempt, ranks.size()));
  }
  void OnLogClosed(const AttemptId& id, uint32_t rank, uint64_t size) override {
    Note(fmt::format("log closed {} {} {}", id.attempt, rank, size));
  }
  void OnForgotten(const AttemptId& id) override { Note(fmt::format("forgotten {}", id.attempt)); }
  void OnDeed(const Deed& deed) override { deeds.push_back(deed); }
  void OnAbandoned() override { Note("abandoned"); }

  std::vector<std::string> Take() { return std::exchange(notes, {}); }

  std::vector<std::string> notes;
  std::vector<std::string> errors;
  std::vector<Deed> deeds;

 private:
  void Note(std::string note) { notes.push_back(std::move(note)); }
};

class AgentCoreTest : public ::testing::Test {
 protected:
  static inline const AttemptId kJob1{JobId("j1"), 1};
  static inline const AttemptId kJob2{JobId("j2"), 1};

  AgentCoreTest() {
    options_.node_id = NodeId("node-1");
    options_.agent_instance_id = "instance-1";
    options_.boot_id = "boot-1";
    options_.facts.set_hostname("node-1");
    options_.facts.add_addresses("10.0.0.1");
  }

  // Starts the agent; again after a crash.
  void StartAgent() {
    Crash();
    executor_ = std::make_unique<SimExecutor>(queue_);
    launcher_ = std::make_unique<RecordingLauncher>();
    launcher_->found = on_disk_;
    store_ = std::make_unique<MemoryAgentStore>(disk_, "node-1", [this] { return persist_; });
    users_ = std::make_unique<FakeUserGate>(*executor_);
    if (inspect_) inspector_ = std::make_unique<FakeNodeInspector>(*executor_);
    options_.inspector = inspector_.get();
    network_ = std::make_unique<FakeRendezvous>(*executor_);
    core_ = std::make_unique<AgentCore>(*executor_, *store_, *launcher_, *users_, *network_,
                                        observer_, options_);
    ASSERT_TRUE(core_->Start().ok());
    queue_.RunReady();
  }
  void Crash() {
    core_.reset();
    inspector_.reset();
    network_.reset();
    users_.reset();
    store_.reset();
    launcher_.reset();
    executor_.reset();
    sink_.reset();
  }

  // Connects and says welcome and the snapshot.
  void Connect(std::vector<v1::Assignment> snapshot = {}, uint64_t acked = 0, uint64_t epoch = 1) {
    Dial();
    Welcome(acked, epoch);
    Snapshot(std::move(snapshot));
  }
  void Dial() {
    sink_ = std::make_unique<RecordingSink>();
    core_->OnConnected(sink_.get());
    queue_.RunReady();
  }
  void Welcome(uint64_t acked = 0, uint64_t epoch = 1) {
    v1::CoordinatorMessage message;
    v1::Welcome& welcome = *message.mutable_welcome();
    welcome.set_session_id("s1");
    welcome.set_coordinator_epoch(epoch);
    welcome.mutable_version()->set_major(1);
    welcome.mutable_heartbeat_interval()->set_seconds(1);
    welcome.mutable_lease_ttl()->set_seconds(10);
    welcome.set_acked_event_seq(acked);
    Say(message);
  }
  void Snapshot(std::vector<v1::Assignment> assignments) {
    v1::CoordinatorMessage message;
    message.mutable_snapshot();
    for (v1::Assignment& assignment : assignments) {
      *message.mutable_snapshot()->add_assignments() = std::move(assignment);
    }
    Say(message);
  }
  void Assign(v1::Assignment assignment) {
    v1::CoordinatorMessage message;
    *message.mutable_assignment() = std::move(assignment);
    Say(message);
  }
  void Ack(uint64_t seq) {
    v1::CoordinatorMessage message;
    message.mutable_event_ack()->set_acked_seq(seq);
    Say(message);
  }
  void Say(const v1::CoordinatorMessage& message) {
    core_->OnMessage(message);
    queue_.RunReady();
  }

  static v1::Assignment Assignment(const AttemptId& id, uint64_t generation,
                                   v1::Assignment::Desired desired) {
    v1::Assignment assignment;
    *assignment.mutable_key() = KeyOf(id);
    assignment.set_generation(generation);
    assignment.set_desired(desired);
    return assignment;
  }
  static v1::Assignment Prepare(const AttemptId& id, uint64_t generation = 1) {
    v1::Assignment assignment = Assignment(id, generation, v1::Assignment::PREPARED);
    v1::LaunchSpec& launch = *assignment.mutable_launch();
    launch.add_argv("train");
    launch.mutable_stop_grace()->set_seconds(3);
    launch.mutable_rendezvous();
    for (uint32_t rank : {0, 1}) {
      launch.add_ranks()->set_rank(rank);
      launch.mutable_ranks(static_cast<int>(rank))->set_local_rank(rank);
    }
    return assignment;
  }
  static v1::Assignment Run(const AttemptId& id, uint64_t generation = 2) {
    v1::Assignment assignment = Assignment(id, generation, v1::Assignment::RUNNING);
    assignment.mutable_rendezvous()->set_address("10.0.0.1");
    assignment.mutable_rendezvous()->set_port(29500);
    return assignment;
  }

  // The shim of `id` records something.
  internal::ShimRecord Record(uint64_t index) {
    internal::ShimRecord record;
    record.set_index(index);
    record.set_time_ns(1);
    return record;
  }
  void Tell(const AttemptId& id, const internal::ShimRecord& record) {
    launcher_->Tell(id, record);
    queue_.RunReady();
  }
  void TellBegun(const AttemptId& id, uint64_t index) {
    internal::ShimRecord record = Record(index);
    record.mutable_begun();
    Tell(id, record);
  }
  void TellPrepared(const AttemptId& id, uint64_t index) {
    internal::ShimRecord record = Record(index);
    record.mutable_prepared()->set_port(29500);
    Tell(id, record);
  }
  void TellStarted(const AttemptId& id, uint64_t index, uint32_t rank) {
    internal::ShimRecord record = Record(index);
    record.mutable_rank_started()->set_rank(rank);
    Tell(id, record);
  }
  void TellExited(const AttemptId& id, uint64_t index, uint32_t rank, int code) {
    internal::ShimRecord record = Record(index);
    record.mutable_rank_exited()->set_rank(rank);
    record.mutable_rank_exited()->set_kind(internal::ShimRankExited::CODE);
    record.mutable_rank_exited()->set_value(code);
    Tell(id, record);
  }
  void TellLogClosed(const AttemptId& id, uint64_t index, uint32_t rank, uint64_t size) {
    internal::ShimRecord record = Record(index);
    record.mutable_log_closed()->set_rank(rank);
    record.mutable_log_closed()->set_size(size);
    Tell(id, record);
  }
  void TellStopped(const AttemptId& id, uint64_t index) {
    internal::ShimRecord record = Record(index);
    record.mutable_stopped();
    Tell(id, record);
  }
  void Die(const AttemptId& id, const std::string& reason = "it died") {
    launcher_->Die(id, reason);
    queue_.RunReady();
  }
  void Swept(const AttemptId& id, Launcher::SweepResult result = {}) {
    launcher_->Swept(id, std::move(result));
    queue_.RunReady();
  }
  // Brings an attempt to where both ranks run; events 1 to 3.
  void RunBoth(const AttemptId& id) {
    Assign(Prepare(id));
    TellBegun(id, 1);
    TellPrepared(id, 2);
    Assign(Run(id));
    TellStarted(id, 3, 0);
    TellStarted(id, 4, 1);
    launcher_->Take();
  }

  // Events sent on the current connection since the last call.
  std::vector<v1::Event> TakeEvents() {
    std::vector<v1::Event> events;
    for (const v1::AgentMessage& message : sink_->sent) {
      for (const v1::Event& event : message.events().events()) events.push_back(event);
    }
    sink_->sent.clear();
    return events;
  }
  // The same as words: "1 prepared".
  std::vector<std::string> TakeEventWords() {
    std::vector<std::string> words;
    for (const v1::Event& event : TakeEvents()) {
      words.push_back(fmt::format("{} {}", event.seq(), Word(event)));
    }
    return words;
  }
  static std::string Word(const v1::Event& event) {
    switch (event.body_case()) {
      case v1::Event::kPrepared:
        return "prepared";
      case v1::Event::kPrepareFailed:
        return "prepare failed: " + event.prepare_failed().problems(0).message();
      case v1::Event::kRankStarted:
        return fmt::format("started {}", event.rank_started().rank());
      case v1::Event::kRankExited:
        return fmt::format("exited {} {}", event.rank_exited().rank(),
                           event.rank_exited().status().exit_code());
      case v1::Event::kRankLost:
        return fmt::format("lost {}", event.rank_lost().rank());
      case v1::Event::kRankLogClosed:
        return fmt::format("log {} {}", event.rank_log_closed().rank(),
                           event.rank_log_closed().size());
      case v1::Event::kRankStalled:
        return fmt::format("stalled {} {}: {}", event.rank_stalled().rank(),
                           event.rank_stalled().silent().seconds(), event.rank_stalled().detail());
      case v1::Event::kRankResumed:
        return fmt::format("resumed {} {}", event.rank_resumed().rank(),
                           event.rank_resumed().silent().seconds());
      case v1::Event::kAttemptStopped:
        return "stopped";
      case v1::Event::kRendezvousProbed:
        return fmt::format("probed {}", event.rendezvous_probed().addresses_size());
      case v1::Event::BODY_NOT_SET:
        break;
    }
    return "?";
  }

  SimQueue queue_;
  AgentDisk disk_;
  Persist persist_ = Persist::kDone;
  std::vector<AttemptId> on_disk_;
  AgentOptions options_;
  RecordingObserver observer_;
  std::unique_ptr<SimExecutor> executor_;
  std::unique_ptr<RecordingLauncher> launcher_;
  std::unique_ptr<MemoryAgentStore> store_;
  std::unique_ptr<RecordingSink> sink_;
  std::unique_ptr<FakeUserGate> users_;
  // Only when `inspect_` was set before the agent was started.
  bool inspect_ = false;
  std::unique_ptr<FakeNodeInspector> inspector_;
  std::unique_ptr<FakeRendezvous> network_;
  std::unique_ptr<AgentCore> core_;
};

}  // namespace muster::testing
