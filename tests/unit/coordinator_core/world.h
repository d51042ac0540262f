// A coordinator core with agents that a test plays by hand, in virtual time. Reads as a story:
//
//   world.Join("node-1");
//   JobId job = world.Submit(world.Spec({"node-1"}));
//   world.Prepared("node-1");
//   world.RankExited(0, 7);
//   EXPECT_EQ(world.Job(job).state(), v1::Job::STOPPING);
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/coordinator_core.h"
#include "coordinator/core/node_table.h"
#include "tests/testing/sim_executor.h"
#include "tests/unit/coordinator_core/disk_store.h"

namespace muster::testing {

// One agent, played by the test. Its journal outlives its sessions.
class FakeAgent final : public AgentSink {
 public:
  explicit FakeAgent(std::string name) { hello.set_node_id(std::move(name)); }

  void Send(v1::CoordinatorMessage message) override;
  void Close(absl::Status status) override { closed = std::move(status); }

  const std::string& name() const { return hello.node_id(); }
  // The newest assignment of an attempt in this session; null when there is none.
  const v1::Assignment* Find(const JobId& job, uint32_t attempt = 1) const;
  v1::Assignment::Desired Desired(const JobId& job, uint32_t attempt = 1) const;
  uint64_t acked() const { return acked_seq; }

  v1::Hello hello;
  // As it was sent last.
  v1::Hello greeting;
  SessionHandle session = SessionHandle::kNone;
  std::vector<v1::Event> journal;
  // What came in the current session.
  std::vector<v1::CoordinatorMessage> inbox;
  std::optional<v1::Welcome> welcome;
  std::map<AttemptId, v1::Assignment> assignments;
  std::vector<v1::SignalRanks> signals;
  uint64_t acked_seq = 0;
  std::optional<absl::Status> closed;
  uint64_t heartbeats = 0;
  // Sends heartbeats, as Welcome asks, while it is connected.
  bool beating = true;
  // Of its clock, from the coordinator's.
  Duration clock_offset{};
};

class World {
 public:
  explicit World(CoordinatorOptions options = {});
  ~World();

  // --- Time ---
  void Run(Duration duration) { queue_.RunFor(duration); }
  void Settle() { queue_.RunReady(); }
  FakeClock& clock() { return queue_.clock(); }

  // --- The coordinator ---
  CoordinatorCore& core() { return *core_; }
  // Kills the coordinator at once and starts another on the same disk. Agents stay disconnected.
  void Crash();
  void Restart();
  Disk& disk() { return disk_; }
  const std::vector<std::string>& notes() const { return notes_; }

  // --- Agents ---
  // Starts an agent with `slots` slots and connects it.
  FakeAgent& Join(const std::string& node, int slots = 2);
  void JoinAll(const std::vector<std::string>& nodes, int slots = 2);
  FakeAgent& Agent(const std::string& node) { return *agents_.at(node); }
  // Opens a new session and says hello; the agent reports the attempts that it has assignments of.
  void Connect(const std::string& node);
  void Disconnect(const std::string& node);
  // Journals an event and sends it if there is a session.
  void Tell(const std::string& node, v1::Event event);
  // Sends journalled events behind `after` again.
  void Resend(const std::string& node, uint64_t after);
  void SendEvents(const std::string& node, v1::EventBatch batch);

  // Events of the newest job's newest attempt, unless `attempt` is given.
  v1::Event EventOf(const std::string& node, std::optional<uint32_t> attempt = std::nullopt);
  void Prepared(const std::string& node);
  void PreparedAll();
  // What the node found when it tried the addresses of its probe; those without an error are
  // reached.
  void Probed(const std::string& node, const std::map<std::string, std::string>& errors = {});
  void PrepareFailed(const std::string& node, const std::string& message);
  void Started(uint32_t rank);
  void StartedAll();
  void Exited(uint32_t rank, int code);
  // The rank neither writes nor works, for two minutes so far.
  void Stalled(uint32_t rank, const std::string& detail);
  // ... and goes on after three.
  void Resumed(uint32_t rank);
  void Killed(uint32_t rank, int signal, bool oom = false);
  void ExecFailed(uint32_t rank, const std::string& step, int error_number);
  void Lost(uint32_t rank, const std::string& reason);
  void LogClosed(uint32_t rank, uint64_t size);
  void Stopped(const std::string& node, const std::string& own_reason = "");
  void Unkillable(const std::string& node, const std::string& process);
  void StoppedAll();
  // Every rank ends with 0 and every node reports that nothing is left.
  void FinishAll();
  std::string NodeOfRank(uint32_t rank);

  // --- Clients ---
  // A job with `slots` ranks on each host.
  static v1::JobSpec Spec(const std::vector<std::string>& hosts, int slots = 2);
  absl::StatusOr<v1::Job> TrySubmit(v1::JobSpec spec, std::string request_id = "",
                                    std::string user = "alice");
  // Submits, joins nothing. The newest job is the one that events are about.
  JobId Submit(v1::JobSpec spec, std::string request_id = "");
  // Joins the hosts of the spec and submits; everything is prepared and runs.
  JobId SubmitAndStart(v1::JobSpec spec);
  v1::Job Job(const JobId& job);
  absl::StatusOr<v1::Job> TryCancel(v1::CancelJobRequest request);
  v1::Job Cancel(const JobId& job, int signal = 0, std::optional<int> grace_seconds = std::nullopt);

  // Runs a call of the core to its answer.
  template <typename T, typename Call>
  absl::StatusOr<T> Await(Call call) {
    auto answer = std::make_shared<std::optional<absl::StatusOr<T>>>();
    call([answer](absl::StatusOr<T> result) { *answer = std::move(result); });
    EXPECT_FALSE(answer->has_value()) << "answered from inside the call";
    for (int i = 0; i < 100 && !answer->has_value(); ++i) {
      queue_.RunFor(i < 2 ? Duration(0) : Duration(std::chrono::milliseconds(10)));
    }
    if (!answer->has_value()) return absl::DeadlineExceededError("no answer");
    return **answer;
  }

 private:
  void StartCore();
  void Beat(FakeAgent& agent, SessionHandle session);
  uint32_t AttemptOf(const JobId& job);

  CoordinatorOptions options_;
  SimQueue queue_;
  Disk disk_;
  std::vector<std::string> notes_;
  uint64_t random_ = 1;
  std::unique_ptr<SimExecutor> executor_;
  std::unique_ptr<DiskStore> store_;
  std::unique_ptr<CoordinatorCore> core_;
  std::map<std::string, std::unique_ptr<FakeAgent>> agents_;
  JobId newest_;
  // The agents' side.
  SimExecutor outside_{queue_};
};

}  // namespace muster::testing
