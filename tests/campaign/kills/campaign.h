// A cluster that runs job after job while a test kills its processes at moments that a seed
// chooses. Every job is checked at its end: exit statuses, logs byte for byte, each rank started
// once. A failure names the seed.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "muster/v1/job.grpc.pb.h"
#include "tests/campaign/kills/campaign_job.h"
#include "tests/integration/sandbox/cluster.h"
#include "tests/testing/relay/relay.h"

namespace muster::testing {

class Campaign {
 public:
  static constexpr int kNodes = 2;
  // Jobs at the same time, each in a slot of its own on every node.
  static constexpr uint32_t kLanes = 3;

  struct Options {
    // Shims are killed: ranks may be lost.
    bool loss_allowed = false;
    // Every agent has a relay of its own between itself and the coordinator.
    bool relayed = false;
  };

  explicit Campaign(Options options);
  Campaign() : Campaign(Options()) {}
  ~Campaign();

  // The number of kills of a test: `usual`, times MUSTER_CAMPAIGN_FACTOR.
  static int Kills(int usual);
  // True in long runs: what is a sample otherwise is to be complete.
  static bool IsLong() { return Kills(1) > 1; }

  // Submits what is due and looks at what ended. Does not wait for anything that is not there.
  void Step();
  // No new jobs; returns when all have ended, were checked and nothing is left of them.
  void Finish();
  // False once something was wrong; the campaign is then to stop.
  bool ok() const { return problems_.empty(); }
  // With the seed, and how to run it again.
  std::string Report() const;

  // Restarts a random agent, or the coordinator, when it has lived for a random while.
  bool KillAnAgent();
  bool KillTheCoordinator();
  // Starts it at once; one that still runs is killed first.
  void RestartTheCoordinator();
  void RestartAgent(int index);
  // Kills a random shim.
  bool KillAShim();
  // Cancels jobs at random moments from their submission on.
  bool CancelAJob();
  // Harms the network of a random agent: delays, throttles, holds or swallows what is sent, cuts
  // connections, refuses new ones. For a random while, and not again before something got through.
  bool HarmTheNetwork();
  // Delivers what agents have sent a second time.
  bool ReplayConnections();
  // The relay of an agent, from 1.
  Relay& relay(int index) { return *relays_.at(index); }
  // Connections that were replayed to their ends.
  uint64_t replayed() const;

  size_t jobs_checked() const { return jobs_checked_; }
  size_t lost_jobs() const { return lost_jobs_; }
  size_t cancelled_jobs() const { return cancelled_jobs_; }
  Cluster& cluster() { return cluster_; }
  // Everything that is left to chance.
  std::mt19937_64& random() { return random_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Harm {
    bool lasts = false;
    // Bytes that had been told to the agent when it was done, or ended.
    uint64_t told_before = 0;
  };

  void AddRelays();
  Clock::time_point SoonAfter(std::chrono::milliseconds most);
  v1::JobService::Stub& Jobs();
  void Forget();
  bool Submit(CampaignJob& job);
  // True when it is over and checked.
  bool Look(CampaignJob& job);
  bool CheckLogs(const CampaignJob& job, const v1::Job& view);
  void Problem(const CampaignJob& job, const std::string& text);

  const Options options_;
  const uint64_t seed_;
  std::mt19937_64 random_;
  Cluster cluster_;
  // By the number of the agent; they end before what they connect.
  std::map<int, std::unique_ptr<Relay>> relays_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::vector<std::unique_ptr<CampaignJob>> lanes_;
  uint64_t next_number_ = 1;
  bool finishing_ = false;
  size_t jobs_checked_ = 0;
  size_t lost_jobs_ = 0;
  size_t cancelled_jobs_ = 0;
  std::vector<std::string> problems_;
  Clock::time_point agent_due_[kNodes + 1];
  Clock::time_point coordinator_due_;
  Clock::time_point shim_due_;
  Clock::time_point cancel_due_[kLanes];
  Clock::time_point network_due_;
  Harm harms_[kNodes + 1];
};

}  // namespace muster::testing
