#include "tests/sim/cluster/chaos.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tests/sim/cluster/world.h"

namespace muster::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Chaos {
 public:
  explicit Chaos(uint64_t seed)
      : profile_(seed), world_(seed, static_cast<int>(1 + profile_.Between(1, 4))) {
    jobs_left_ = static_cast<int>(profile_.Between(2, 7));
    fault_time_ = profile_.Between(seconds(20), seconds(120));
    // Some runs are calm but for one kind of fault, some have them all.
    for (double& weight : weights_) weight = profile_.Chance(0.5) ? 1.0 : 0.0;
    for (const auto& node : world_.nodes()) node->is_old = profile_.Chance(0.05);
    mean_gap_ms_ = static_cast<double>(profile_.Between(300, 8000));
  }

  ChaosResult Run() {
    ScheduleJob();
    ScheduleFault();
    SchedulePoll();
    bool ok = world_.RunFor(fault_time_);
    peace_ = true;
    if (ok) ok = Calm();
    if (ok) CheckLogs();
    ChaosResult result;
    result.violation = world_.truth().violation();
    if (result.violation) result.trace = world_.truth().TraceTail();
    for (const auto& job : world_.jobs()) {
      ++result.jobs;
      result.attempts += static_cast<int>(job->view.attempt());
      result.succeeded += job->view.state() == v1::Job::SUCCEEDED;
      result.failed += job->view.state() == v1::Job::FAILED;
      result.cancelled += job->view.state() == v1::Job::CANCELLED;
    }
    result.faults = faults_;
    result.virtual_seconds =
        std::chrono::duration<double>(world_.queue().clock().elapsed()).count();
    return result;
  }

 private:
  Random& random() { return world_.random(); }
  Duration Gap() {
    const double uniform = static_cast<double>(random().Between(1, 1'000'000)) / 1e6;
    return milliseconds(static_cast<int64_t>(-mean_gap_ms_ * std::log(uniform)));
  }

  // --- Jobs ---

  RankScript Script(bool calm) {
    RankScript script;
    script.run = random().Between(milliseconds(100), milliseconds(12'000));
    script.output_every = random().Between(milliseconds(50), milliseconds(1000));
    script.output_bytes = random().Between(1, 2000);
    if (calm) return script;
    if (random().Chance(0.10)) script.exit_code = static_cast<int>(random().Between(1, 255));
    if (random().Chance(0.03)) {
      script.exit_code = 0;
      script.signal = 11;
    }
    if (random().Chance(0.02)) script.exec_fails = true;
    if (random().Chance(0.02)) script.prepare_fails = true;
    if (random().Chance(0.15)) script.deaf = true;
    if (random().Chance(0.01)) script.unkillable = true;
    if (random().Chance(0.05) || script.unkillable) script.run = Duration(-1);
    return script;
  }

  void ScheduleJob() {
    world_.queue().Add(random().Between(milliseconds(0), fault_time_ / 4), [this] {
      if (peace_ || jobs_left_-- == 0) return;
      SubmitOne();
      ScheduleJob();
    });
  }

  void SubmitOne() {
    const std::string name = "script-" + std::to_string(world_.jobs().size());
    const int nodes = static_cast<int>(random().Between(1, world_.nodes().size()));
    const int slots = static_cast<int>(random().Between(1, 3));
    const bool calm = random().Chance(0.4);
    std::vector<RankScript> scripts;
    for (int i = 0; i < nodes * slots; ++i) scripts.push_back(Script(calm));
    world_.book().Add(name, scripts);
    v1::JobSpec spec = world_.Spec(name, nodes, slots);
    spec.mutable_grace()->set_seconds(static_cast<int64_t>(random().Between(0, 4)));
    spec.mutable_start_timeout()->set_seconds(static_cast<int64_t>(random().Between(5, 90)));
    if (random().Chance(0.2)) {
      spec.mutable_time_limit()->set_seconds(static_cast<int64_t>(random().Between(1, 20)));
    }
    if (random().Chance(0.4)) {
      spec.mutable_on_coordinator_loss()->mutable_stop_after()->set_seconds(
          static_cast<int64_t>(random().Between(2, 10)));
    }
    if (random().Chance(0.5)) {
      spec.mutable_restart()->set_max_attempts(static_cast<uint32_t>(random().Between(2, 4)));
      spec.mutable_restart()->add_on("node-lost");
      if (random().Chance(0.5)) spec.mutable_restart()->add_on("rank-failed");
    }
    ClientJob& job = world_.Submit(std::move(spec));
    if (random().Chance(0.5)) {
      world_.Watch(job);
      watched_.push_back(&job);
    }
    if (random().Chance(0.25)) {
      world_.queue().Add(random().Between(milliseconds(0), milliseconds(15'000)),
                         [this, &job] { CancelOne(job); });
    }
    if (random().Chance(0.1)) {
      world_.queue().Add(random().Between(milliseconds(100), milliseconds(8000)),
                         [this, &job] { world_.Signal(job, 10); });
    }
  }

  void CancelOne(ClientJob& job) {
    world_.Cancel(job, random().Between(milliseconds(0), milliseconds(900)));
    if (!random().Chance(0.3)) return;
    world_.queue().Add(random().Between(milliseconds(0), milliseconds(2000)),
                       [this, &job] { world_.Cancel(job, Duration(0)); });
  }

  void SchedulePoll() {
    world_.queue().Add(random().Between(milliseconds(100), milliseconds(900)), [this] {
      for (const auto& job : world_.jobs()) {
        if (random().Chance(0.7)) world_.Refresh(*job);
      }
      SchedulePoll();
    });
  }

  // --- Faults ---

  World::Node& AnyNode() {
    return world_.node(random().Between(uint64_t{0}, world_.nodes().size() - 1));
  }

  void ScheduleFault() {
    world_.queue().Add(Gap(), [this] {
      if (peace_) return;
      Fault();
      ScheduleFault();
    });
  }

  void Fault() {
    const size_t kind = random().Between(uint64_t{0}, kKinds - 1);
    if (weights_[kind] == 0.0) return;
    ++faults_;
    World::Node& node = AnyNode();
    switch (kind) {
      case 0:
        world_.BreakStreams(node, random().Chance(0.7), random().Chance(0.5));
        break;
      case 1:
        CutFor(node);
        break;
      case 2:
        node.link.max_delay = random().Between(milliseconds(1), milliseconds(3000));
        break;
      case 3:
        world_.CrashAgent(node, random().Between(milliseconds(5), milliseconds(12'000)));
        break;
      case 4:
        world_.CrashAgentAtWrite(node, static_cast<int>(random().Between(1, 12)));
        break;
      case 5:
        world_.CrashCoordinator(random().Between(milliseconds(5), milliseconds(8'000)));
        break;
      case 6:
        world_.CrashCoordinatorAtWrite(static_cast<int>(random().Between(1, 12)));
        break;
      case 7: {
        const std::vector<AttemptId> shims = node.host->LiveShims();
        if (shims.empty()) break;
        node.host->CrashShim(shims[random().Between(uint64_t{0}, shims.size() - 1)]);
        if (random().Chance(0.3)) {
          world_.CrashAgent(node, random().Between(milliseconds(5), milliseconds(5000)));
        }
        break;
      }
      case 8:
        world_.RebootNode(node, random().Between(milliseconds(500), milliseconds(20'000)),
                          random().Chance(0.4));
        break;
      case 9:
        world_.LoseJournal(node, random().Between(milliseconds(5), milliseconds(5000)));
        break;
      case 10:
        node.disk_full = true;
        world_.queue().Add(random().Between(milliseconds(100), milliseconds(6000)),
                           [&node] { node.disk_full = false; });
        break;
      case 11:
        world_.SetCoordinatorDiskFull(true);
        world_.queue().Add(random().Between(milliseconds(100), milliseconds(6000)),
                           [this] { world_.SetCoordinatorDiskFull(false); });
        break;
      case 12:
        BlockFor(node);
        break;
      case 13:
        world_.SetProbes(random().Between(milliseconds(20), milliseconds(6000)),
                         random().Chance(0.5) ? 0.3 : 0);
        world_.queue().Add(random().Between(milliseconds(500), milliseconds(10'000)),
                           [this] { world_.SetProbes(milliseconds(20), 0); });
        break;
      default:
        break;
    }
  }

  // The node does not reach some address of another for a while.
  void BlockFor(World::Node& node) {
    for (const std::string& address : World::AddressesOf(AnyNode())) {
      if (random().Chance(0.3)) continue;
      node.unreachable.insert(address);
      world_.queue().Add(random().Between(milliseconds(200), milliseconds(25'000)),
                         [&node, address] { node.unreachable.erase(address); });
    }
  }

  void CutFor(World::Node& node) {
    const uint64_t way = random().Between(0, 2);
    world_.CutLink(node, way != 1, way != 0);
    world_.queue().Add(random().Between(milliseconds(200), milliseconds(25'000)),
                       [this, &node] { world_.CutLink(node, false, false); });
  }

  // --- Peace ---

  // Faults stop; jobs that would run for ever are cancelled; everything must end.
  bool Calm() {
    world_.HealAll();
    for (const auto& job : world_.jobs()) {
      if (!job->ended()) {
        world_.queue().Add(random().Between(milliseconds(0), seconds(40)),
                           [this, &job = *job] { CancelOne(job); });
      }
    }
    const auto all_ended = [this] {
      for (const auto& job : world_.jobs()) {
        if (!job->ended()) return false;
      }
      return true;
    };
    if (!world_.RunUntil(all_ended, seconds(400))) {
      for (const auto& job : world_.jobs()) {
        if (!job->ended()) {
          world_.truth().Violation(fmt::format("job {} does not end: {}", job->id.value(),
                                               job->view.ShortDebugString().substr(0, 3000)));
        }
      }
      return false;
    }
    if (!world_.RunUntil([this] { return world_.Quiet(); }, seconds(200))) {
      world_.truth().Violation("long after all jobs ended, this is left" + world_.Leftovers());
      return false;
    }
    if (world_.truth().Running() != 0) world_.truth().Violation("ranks outlived their jobs");
    // Terminal states stay, late messages or not.
    if (!world_.RunFor(seconds(30))) return false;
    for (const ClientJob* job : watched_) {
      if (!job->watch_ended) {
        world_.truth().Violation(fmt::format("the watch of job {} never ended", job->id.value()));
      }
    }
    return !world_.truth().violation();
  }

  // Output of nodes that forgot nothing is complete.
  void CheckLogs() {
    for (const auto& job : world_.jobs()) {
      const v1::Job& view = job->view;
      const AttemptId id{job->id, view.attempt()};
      for (const v1::JobRank& rank : view.ranks()) {
        const v1::JobNode& node = view.nodes(static_cast<int>(rank.node_index()));
        if (node.phase() != v1::JobNode::STOPPED || !rank.log_closed()) continue;
        if (Disrupted(node.node_id())) continue;
        const std::string& written = world_.truth().Rank(id, rank.rank()).log;
        const auto found = world_.coordinator_disk().logs.find({id, rank.rank()});
        const std::string stored =
            found == world_.coordinator_disk().logs.end() ? "" : found->second;
        if (stored != written) {
          world_.truth().Violation(fmt::format("job {} rank {}: {} bytes of output of {} stored",
                                               view.job_id(), rank.rank(), stored.size(),
                                               written.size()));
        }
      }
    }
  }
  bool Disrupted(const std::string& node_id) {
    for (const auto& node : world_.nodes()) {
      if (node->id.value() == node_id) return node->disrupted;
    }
    return true;
  }

  static constexpr size_t kKinds = 14;

  // Shapes the run; apart from the world's choices, so that its constructor can use it.
  Random profile_;
  World world_;
  int jobs_left_ = 0;
  Duration fault_time_{};
  double weights_[kKinds] = {};
  double mean_gap_ms_ = 0;
  bool peace_ = false;
  int faults_ = 0;
  std::vector<const ClientJob*> watched_;
};

}  // namespace

ChaosResult RunChaos(uint64_t seed) { return Chaos(seed).Run(); }

}  // namespace muster::testing
