// One life of an agent process in a simulation: the real core and log shipper, a journal that may
// take the process down at any write, and transports that dial over a simulated link.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/core/agent_core.h"
#include "agent/session/backoff.h"
#include "agent/session/log_connection.h"
#include "agent/session/log_shipper.h"
#include "tests/sim/cluster/fake_host.h"
#include "tests/sim/cluster/fake_launcher.h"
#include "tests/sim/cluster/random.h"
#include "tests/sim/cluster/sim_coordinator.h"
#include "tests/sim/cluster/sim_rendezvous.h"
#include "tests/sim/cluster/truth.h"
#include "tests/testing/fake_user_gate.h"
#include "tests/testing/memory_agent_store.h"
#include "tests/testing/sim_executor.h"

namespace muster::testing {

class SimAgent final : public AgentObserver, private LogTransport {
 public:
  struct Hooks {
    // Fate of the next write to the journal.
    std::function<Persist()> fate;
    // Opens a stream to the coordinator of this moment; null when there is none to be reached.
    std::function<std::shared_ptr<SessionStream>()> dial;
    std::function<std::shared_ptr<LogStream>()> dial_logs;
    SimRendezvous::Hooks network;
    // How long a log connection without work stays.
    Duration log_idle = LogConnection::kIdle;
  };

  SimAgent(SimQueue& queue, Random& random, Truth& truth, FakeHost& host, AgentDisk& disk,
           AgentOptions options, Hooks hooks);
  ~SimAgent() override;

  // The process dies: its streams end. Destroy it soon.
  void Die();
  bool alive() const { return process_.alive(); }
  const AgentCore& core() const { return *core_; }
  bool abandoned() const { return abandoned_; }

 private:
  struct SessionSink;
  struct UploadSink;

  void DialLater();
  void Dial();
  // LogTransport
  bool Open() override;
  void Close() override;

  void OnNotice(Severity severity, const std::string& line) override;
  void OnSession(const std::string& session_id) override;
  void OnSessionLost() override;
  void OnAttempt(const AttemptId& id, const std::vector<uint32_t>& ranks) override;
  void OnLogClosed(const AttemptId& id, uint32_t rank, uint64_t size) override;
  void OnForgotten(const AttemptId& id) override;
  void OnDeed(const Deed&) override {}
  void OnAbandoned() override { abandoned_ = true; }

  SimQueue& queue_;
  Random& random_;
  Truth& truth_;
  const std::string node_;
  Hooks hooks_;
  SimExecutor process_;
  MemoryAgentStore store_;
  FakeLauncher launcher_;
  LogShipper shipper_;
  testing::FakeUserGate users_{process_};
  SimRendezvous network_;
  std::unique_ptr<AgentCore> core_;
  LogConnection logs_;
  Backoff backoff_;
  // Sinks of streams that are over are kept: the core may hold them for a moment longer.
  std::vector<std::unique_ptr<SessionSink>> sessions_;
  std::vector<std::unique_ptr<UploadSink>> uploads_;
  Executor::TimerId dial_timer_ = 0;
  bool abandoned_ = false;
};

}  // namespace muster::testing
