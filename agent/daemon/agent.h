// The composition root of the agent: everything it is made of, in the order of dependence, on one
// event loop. Made, run and destroyed by main on one thread.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "agent/binding/placing_inspector.h"
#include "agent/checks/bandwidth_test.h"
#include "agent/checks/composite_inspector.h"
#include "agent/checks/engine_probe.h"
#include "agent/checks/node_checks.h"
#include "agent/checks/probe_process.h"
#include "agent/core/agent_core.h"
#include "agent/daemon/audit_events.h"
#include "agent/daemon/card_inspector.h"
#include "agent/daemon/card_reader.h"
#include "agent/daemon/certificate_keeper.h"
#include "agent/daemon/config.h"
#include "agent/node/system_rendezvous.h"
#include "agent/node/system_user_gate.h"
#include "agent/rpc/log_client.h"
#include "agent/rpc/session_client.h"
#include "agent/session/log_shipper.h"
#include "agent/store/file_agent_store.h"
#include "agent/supervise/shim_launcher.h"
#include "agent/supervise/spool.h"
#include "agent/supervise/systemd_scopes.h"
#include "common/audit/audit_trail.h"
#include "common/io/event_loop.h"

namespace muster {

class Agent final : private AgentObserver {
 public:
  // Reads the journal, adopts what runs and dials the coordinator. The state directory exists and
  // is locked.
  static absl::StatusOr<std::unique_ptr<Agent>> Create(const AgentConfig& config);
  ~Agent() override;
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Runs until Leave is done, or an ephemeral agent is not needed any more.
  void Run() { loop_.Run(); }
  EventLoop& loop() { return loop_; }

  // One line for people: whom it serves, and what runs. On the loop thread.
  std::string Status() const;

  // Ends the agent, which was told so by `signal`. Ranks stay; those of an ephemeral agent are
  // stopped first, and killed at once when it is called again. On the loop thread.
  void Leave(int signal);

 private:
  explicit Agent(const AgentConfig& config);
  absl::Status Start();
  void StopRanks(std::chrono::milliseconds grace, const std::string& reason);
  void StopWhenTold(TimePoint deadline);
  void OnCardsChanged();

  void OnNotice(Severity severity, const std::string& line) override;
  void OnSession(const std::string& session_id) override;
  void OnSessionLost() override;
  void OnAttempt(const AttemptId& id, const std::vector<uint32_t>& ranks) override;
  void OnLogClosed(const AttemptId& id, uint32_t rank, uint64_t size) override;
  void OnForgotten(const AttemptId& id) override;
  void OnDeed(const Deed& deed) override;
  void OnAbandoned() override;
  OrderedBy Coordinator() const;

  const AgentConfig config_;
  const std::string attempts_directory_;
  // Name of the agent's user.
  const std::string own_user_;
  const SystemClock clock_;
  EventLoop loop_;
  // Null where nothing is kept.
  std::unique_ptr<AuditTrail> audit_;
  // The coordinator of the newest connection over the network. Threads of gRPC tell, which may
  // outlive the agent.
  const std::shared_ptr<MetCoordinator> met_ = std::make_shared<MetCoordinator>();
  FileAgentStore store_;
  // Null where jobs get no scopes.
  std::unique_ptr<SystemdScopes> scopes_;
  std::unique_ptr<CardReader> cards_;
  // Facts of the node but for its cards.
  v1::NodeFacts facts_;
  std::unique_ptr<ShimLauncher> launcher_;
  std::unique_ptr<FileSpool> spool_;
  std::unique_ptr<LogShipper> shipper_;
  std::unique_ptr<SystemUserGate> users_;
  std::unique_ptr<ProbeRunner> probes_;
  std::unique_ptr<EngineProbe> engines_;
  // What looks at the node before every launch: each knows one thing.
  std::unique_ptr<Ec2Metadata> ec2_;
  std::unique_ptr<NodeChecks> node_checks_;
  std::unique_ptr<CardInspector> card_inspector_;
  std::unique_ptr<PlacingInspector> placing_;
  std::unique_ptr<CompositeInspector> inspector_;
  std::unique_ptr<BandwidthTest> bandwidth_;
  std::unique_ptr<SystemRendezvous> network_;
  std::unique_ptr<AgentCore> core_;
  std::unique_ptr<LogClient> logs_;
  std::unique_ptr<SessionClient> session_;
  // Null where the coordinator is on this machine.
  std::unique_ptr<CertificateKeeper> certificate_;
  bool leaving_ = false;
  bool in_session_ = false;
  // Why the newest connection to the coordinator ended, or could not be made.
  std::string disconnected_;
};

}  // namespace muster
