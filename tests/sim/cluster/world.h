// A cluster in one thread: nodes with agents, a coordinator, links, clients, and faults, all driven
// by one seed. Tests step it; after every step the invariants are checked.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/cluster/fake_host.h"
#include "tests/sim/cluster/random.h"
#include "tests/sim/cluster/script_book.h"
#include "tests/sim/cluster/sim_agent.h"
#include "tests/sim/cluster/sim_coordinator.h"
#include "tests/sim/cluster/truth.h"
#include "tests/testing/sim_executor.h"

namespace muster::testing {

// What a client knows of one of its jobs.
struct ClientJob {
  v1::SubmitJobRequest request;
  // Empty until a submission was answered.
  JobId id;
  // Newest view.
  v1::Job view;
  // The last update of a watch came.
  bool watch_ended = false;

  bool ended() const { return view.state() >= v1::Job::SUCCEEDED; }
};

class World {
 public:
  struct Node {
    NodeId id;
    int boot = 1;
    int starts = 0;
    Link link;
    AgentDisk disk;
    std::unique_ptr<FakeHost> host;
    std::unique_ptr<SimAgent> agent;
    // The next writes end like this: crash at the n-th, or fail until then.
    int crash_at_write = 0;
    bool disk_full = false;
    // Its agent knows nothing of probes.
    bool is_old = false;
    // Addresses of others that it does not reach.
    std::set<std::string> unreachable;
    // The node forgot something: its attempts may be lost.
    bool disrupted = false;
  };

  World(uint64_t seed, int nodes);
  ~World();

  // --- Time ---
  // Runs the next task and checks the invariants. False when a violation was found.
  bool Step();
  // Runs for a time; false when a violation was found.
  bool RunFor(Duration duration);
  // Runs until `done` or the time is over; true when done.
  bool RunUntil(const std::function<bool()>& done, Duration at_most);

  // --- Faults; everything can be called at any time ---
  void CrashAgent(Node& node, Duration down);
  void CrashAgentAtWrite(Node& node, int write) { node.crash_at_write = write; }
  void RebootNode(Node& node, Duration down, bool wipe);
  // The agent dies and its journal is gone; shims and directories stay.
  void LoseJournal(Node& node, Duration down);
  void CrashCoordinator(Duration down);
  void CrashCoordinatorAtWrite(int write) { coordinator_crash_at_write_ = write; }
  void SetCoordinatorDiskFull(bool full) { coordinator_disk_full_ = full; }
  void CutLink(Node& node, bool up, bool down);
  void BreakStreams(Node& node, bool session, bool logs);
  // How long probes of a rendezvous take at most, and how many never end.
  void SetProbes(Duration max_delay, double lost) {
    probe_max_delay_ = max_delay;
    probe_loss_ = lost;
  }
  // Addresses of a node, the preferred first.
  static std::vector<std::string> AddressesOf(const Node& node);
  // Ends all faults: links are whole, disks have room, dead processes start soon.
  void HealAll();

  // --- Clients ---
  // Submits until an answer comes, always with the same request id.
  ClientJob& Submit(v1::JobSpec spec);
  // Cancels until it is answered.
  void Cancel(ClientJob& job, Duration grace);
  void Signal(ClientJob& job, int signal);
  // Asks for the newest view.
  void Refresh(ClientJob& job);
  // Watches until the last update came, again after every death of the coordinator.
  void Watch(ClientJob& job);
  // A job of `slots` ranks per node on the first nodes, running the script of this name.
  v1::JobSpec Spec(const std::string& script, int nodes, int slots);

  SimQueue& queue() { return queue_; }
  Random& random() { return random_; }
  Truth& truth() { return truth_; }
  ScriptBook& book() { return book_; }
  std::vector<std::unique_ptr<Node>>& nodes() { return nodes_; }
  Node& node(size_t index) { return *nodes_[index]; }
  std::vector<std::unique_ptr<ClientJob>>& jobs() { return jobs_; }
  SimCoordinator* coordinator() { return coordinator_.get(); }
  const CoordinatorDisk& coordinator_disk() const { return coordinator_disk_; }
  CoordinatorOptions& options() { return options_; }
  // True when nothing of any job is left on any node.
  bool Quiet() const { return Leftovers().empty(); }
  // Log connections of all nodes that are not over at both ends.
  size_t OpenLogStreams() const;
  // What is left, in words.
  std::string Leftovers() const;
  int agent_writes() const { return agent_writes_; }
  int coordinator_writes() const { return coordinator_writes_; }

 private:
  void StartAgent(Node& node);
  void StartCoordinator();
  Persist AgentFate(Node& node);
  Persist CoordinatorFate();
  void AgentDied(Node& node, Duration down);
  void CoordinatorDied(Duration down);
  // Why `node` does not reach a port of an address; empty when it does.
  std::string Reach(const Node& node, const std::string& address, uint32_t port) const;
  void OnStored(const StoreBatch& batch);
  void CheckAcks();
  // `whole`: all ranks are in the view, not only those that changed.
  void CheckView(ClientJob& job, const v1::Job& view, bool whole);
  void SubmitAgain(ClientJob& job);
  void CancelAgain(ClientJob& job, Duration grace);
  class Watcher;

  SimQueue queue_;
  Random random_;
  Truth truth_;
  ScriptBook book_;
  CoordinatorOptions options_;
  CoordinatorDisk coordinator_disk_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unique_ptr<SimCoordinator> coordinator_;
  // Streams that are not over, with the node of each.
  std::vector<std::pair<Node*, std::weak_ptr<SessionStream>>> sessions_;
  std::vector<std::pair<Node*, std::weak_ptr<LogStream>>> log_streams_;
  std::vector<std::unique_ptr<ClientJob>> jobs_;
  std::vector<std::shared_ptr<Watcher>> watchers_;
  int coordinator_crash_at_write_ = 0;
  bool coordinator_disk_full_ = false;
  bool coordinator_restart_pending_ = false;
  Duration probe_max_delay_ = std::chrono::milliseconds(20);
  double probe_loss_ = 0;
  int agent_writes_ = 0;
  int coordinator_writes_ = 0;
  // Events of agents that were stored, by what identifies them.
  std::map<std::string, int> stored_reports_;
};

}  // namespace muster::testing
