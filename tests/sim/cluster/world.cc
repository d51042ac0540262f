#include "tests/sim/cluster/world.h"

#include <algorithm>
#include <utility>

#include "common/base/annotate.h"

namespace muster::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

World::World(uint64_t seed, int nodes) : random_(seed), truth_(queue_) {
  options_.heartbeat_interval = milliseconds(500);
  options_.lease_ttl = seconds(5);
  options_.prepare_failure_window = milliseconds(500);
  options_.stop_confirmation_limit = seconds(20);
  options_.probe_rendezvous = true;
  options_.probe_margin = seconds(3);
  options_.note = [this](NoteLevel, std::string_view line) {
    truth_.Note(fmt::format("coordinator {}", line));
  };
  for (int i = 1; i <= nodes; ++i) {
    Node& node = *nodes_.emplace_back(std::make_unique<Node>());
    node.id = NodeId(fmt::format("node-{}", i));
    node.host = std::make_unique<FakeHost>(queue_, random_, book_, truth_, node.id.value());
  }
  StartCoordinator();
  for (const auto& node : nodes_) StartAgent(*node);
}

World::~World() {
  watchers_.clear();
  for (const auto& node : nodes_) {
    if (node->agent != nullptr) node->agent->Die();
    node->agent.reset();
  }
  if (coordinator_ != nullptr) coordinator_->Die();
}

// --- Time ---

bool World::Step() {
  queue_.RunOne();
  CheckAcks();
  return !truth_.violation().has_value();
}

bool World::RunFor(Duration duration) {
  return !RunUntil([] { return false; }, duration) && !truth_.violation().has_value();
}

bool World::RunUntil(const std::function<bool()>& done, Duration at_most) {
  const TimePoint until = queue_.clock().Now() + at_most;
  while (!truth_.violation() && !done()) {
    if (!queue_.RunOne(until)) {
      queue_.clock().Set(until);
      return done();
    }
    CheckAcks();
  }
  return !truth_.violation();
}

// --- Processes ---

void World::StartAgent(Node& node) {
  if (node.agent != nullptr) return;
  AgentOptions options;
  options.node_id = node.id;
  options.agent_instance_id = fmt::format("{}-instance-{}", node.id.value(), ++node.starts);
  options.boot_id = fmt::format("{}-boot-{}", node.id.value(), node.boot);
  options.facts.set_hostname(node.id.value());
  for (std::string& address : AddressesOf(node)) options.facts.add_addresses(std::move(address));
  if (node.is_old) {
    truth_.Exempt(node.id.value());
  } else {
    options.capabilities.push_back("rendezvous-probe");
  }
  options.compact_bytes = 2048;
  for (uint32_t slot = 0; slot < 4; ++slot) options.facts.add_slots(slot);
  truth_.Note(fmt::format("{} starts", options.agent_instance_id));
  SimAgent::Hooks hooks;
  hooks.fate = [this, &node] { return AgentFate(node); };
  hooks.dial = [this, &node]() -> std::shared_ptr<SessionStream> {
    if (coordinator_ == nullptr || !coordinator_->alive()) return nullptr;
    if (node.link.up_cut || node.link.down_cut) return nullptr;
    auto stream = std::make_shared<SessionStream>(queue_, random_, node.link);
    coordinator_->Accept(node.id, stream);
    sessions_.emplace_back(&node, stream);
    return stream;
  };
  hooks.dial_logs = [this, &node]() -> std::shared_ptr<LogStream> {
    if (coordinator_ == nullptr || !coordinator_->alive()) return nullptr;
    if (node.link.up_cut || node.link.down_cut) return nullptr;
    auto stream = std::make_shared<LogStream>(queue_, random_, node.link);
    coordinator_->AcceptLogs(node.id, stream);
    log_streams_.emplace_back(&node, stream);
    return stream;
  };
  hooks.network.reach = [this, &node](const std::string& address, uint32_t port) {
    return Reach(node, address, port);
  };
  hooks.network.takes = [this]() -> std::optional<Duration> {
    if (probe_loss_ > 0 && random_.Chance(probe_loss_)) return std::nullopt;
    return random_.Between(milliseconds(1), probe_max_delay_);
  };
  // A short one makes connections come and go all the time.
  if (random_.Chance(0.5)) hooks.log_idle = random_.Between(Duration(0), seconds(2));
  node.agent = std::make_unique<SimAgent>(queue_, random_, truth_, *node.host, node.disk,
                                          std::move(options), std::move(hooks));
}

std::vector<std::string> World::AddressesOf(const Node& node) {
  const std::string number = node.id.value().substr(5);
  return {"10.0.0." + number, "10.1.0." + number};
}

std::string World::Reach(const Node& node, const std::string& address, uint32_t port) const {
  if (node.unreachable.contains(address)) return "no answer within 2 s";
  for (const auto& other : nodes_) {
    const std::vector<std::string> addresses = AddressesOf(*other);
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) continue;
    return other->host->Listens(port) ? "" : "connection refused";
  }
  return "no route to host";
}

void World::AgentDied(Node& node, Duration down) {
  if (node.agent == nullptr || !node.agent->alive()) return;
  truth_.Note(fmt::format("{} agent dies", node.id.value()));
  node.agent->Die();
  // Not here: the agent may be in the middle of a call.
  queue_.Add(Duration(0), [&node] {
    if (node.agent != nullptr && !node.agent->alive()) node.agent.reset();
  });
  queue_.Add(down + milliseconds(1), [this, &node] { StartAgent(node); });
}

void World::StartCoordinator() {
  if (coordinator_ != nullptr) return;
  truth_.Note("coordinator starts");
  SimCoordinator::Hooks hooks;
  hooks.fate = [this] { return CoordinatorFate(); };
  hooks.on_stored = [this](const StoreBatch& batch) { OnStored(batch); };
  coordinator_ = std::make_unique<SimCoordinator>(queue_, random_, truth_, coordinator_disk_,
                                                  options_, std::move(hooks));
}

void World::CoordinatorDied(Duration down) {
  if (coordinator_ == nullptr || !coordinator_->alive()) return;
  truth_.Note("coordinator dies");
  coordinator_->Die();
  queue_.Add(Duration(0), [this] {
    if (coordinator_ != nullptr && !coordinator_->alive()) coordinator_.reset();
  });
  queue_.Add(down + milliseconds(1), [this] { StartCoordinator(); });
}

Persist World::AgentFate(Node& node) {
  ++agent_writes_;
  if (node.disk_full) return Persist::kFails;
  if (node.crash_at_write == 0 || --node.crash_at_write > 0) return Persist::kDone;
  const Persist fate = random_.Chance(0.5) ? Persist::kLost : Persist::kKept;
  truth_.Note(fmt::format("{} crash at a write of the journal, {}", node.id.value(),
                          fate == Persist::kLost ? "lost" : "kept"));
  AgentDied(node, random_.Between(milliseconds(10), milliseconds(5000)));
  return fate;
}

Persist World::CoordinatorFate() {
  ++coordinator_writes_;
  if (coordinator_disk_full_) return Persist::kFails;
  if (coordinator_crash_at_write_ == 0 || --coordinator_crash_at_write_ > 0) return Persist::kDone;
  const Persist fate = random_.Chance(0.5) ? Persist::kLost : Persist::kKept;
  truth_.Note(fmt::format("coordinator crash at a write of the store, {}",
                          fate == Persist::kLost ? "lost" : "kept"));
  CoordinatorDied(random_.Between(milliseconds(10), milliseconds(4000)));
  return fate;
}

// --- Faults ---

void World::CrashAgent(Node& node, Duration down) { AgentDied(node, down); }

void World::RebootNode(Node& node, Duration down, bool wipe) {
  truth_.Note(fmt::format("{} reboots{}", node.id.value(), wipe ? " with an empty disk" : ""));
  node.disrupted = true;
  AgentDied(node, down);
  node.host->Reboot();
  ++node.boot;
  if (wipe) {
    node.host->Wipe();
    node.disk.records.clear();
  }
}

void World::LoseJournal(Node& node, Duration down) {
  truth_.Note(fmt::format("{} loses its journal", node.id.value()));
  node.disrupted = true;
  AgentDied(node, down);
  node.disk.records.clear();
}

void World::CrashCoordinator(Duration down) { CoordinatorDied(down); }

void World::CutLink(Node& node, bool up, bool down) {
  const bool healed = (node.link.up_cut && !up) || (node.link.down_cut && !down);
  truth_.Note(fmt::format("{} link cut: up {} down {}", node.id.value(), up, down));
  node.link.up_cut = up;
  node.link.down_cut = down;
  if (!healed) return;
  for (const auto& [owner, weak] : sessions_) {
    const auto stream = weak.lock();
    if (owner == &node && stream != nullptr) stream->OnHealed();
  }
  for (const auto& [owner, weak] : log_streams_) {
    const auto stream = weak.lock();
    if (owner == &node && stream != nullptr) stream->OnHealed();
  }
}

void World::BreakStreams(Node& node, bool session, bool logs) {
  truth_.Note(fmt::format("{} streams break: session {} logs {}", node.id.value(), session, logs));
  for (const auto& [owner, weak] : sessions_) {
    const auto stream = weak.lock();
    if (session && owner == &node && stream != nullptr) stream->Break();
  }
  for (const auto& [owner, weak] : log_streams_) {
    const auto stream = weak.lock();
    if (logs && owner == &node && stream != nullptr) stream->Break();
  }
}

size_t World::OpenLogStreams() const {
  return static_cast<size_t>(
      std::count_if(log_streams_.begin(), log_streams_.end(), [](const auto& entry) {
        const auto stream = entry.second.lock();
        return stream != nullptr && !stream->over();
      }));
}

void World::HealAll() {
  truth_.Note("all faults end");
  for (const auto& node : nodes_) {
    node->crash_at_write = 0;
    node->disk_full = false;
    node->link.max_delay = milliseconds(20);
    node->unreachable.clear();
    CutLink(*node, false, false);
    queue_.Add(milliseconds(10), [this, &node = *node] { StartAgent(node); });
  }
  coordinator_crash_at_write_ = 0;
  coordinator_disk_full_ = false;
  SetProbes(milliseconds(20), 0);
  queue_.Add(milliseconds(10), [this] { StartCoordinator(); });
}

std::string World::Leftovers() const {
  std::string text;
  for (const auto& node : nodes_) {
    const std::string& name = node->id.value();
    if (node->agent == nullptr) {
      text += fmt::format("; {} has no agent", name);
      continue;
    }
    const AgentState& state = node->agent->core().state();
    if (!state.events.empty()) text += fmt::format("; {} events {}", name, state.events.size());
    for (const auto& [id, attempt] : state.attempts) {
      text += fmt::format("; {} attempt {} {}", name, Truth::Name(id),
                          attempt.ShortDebugString().substr(0, 1000));
    }
    for (const AttemptId& id : node->host->Directories()) {
      text += fmt::format("; {} directory {}", name, Truth::Name(id));
    }
  }
  return text;
}

// --- Invariants ---

void World::OnStored(const StoreBatch& batch) {
  for (const StoredEvent& event : batch.events) {
    if (!event.event.has_reported()) continue;
    const internal::AgentReported& report = event.event.reported();
    // What one node journalled is stored at most once. A new journal may tell anew what a shim
    // recorded for the one before; hosts of jobs are the nodes in their order.
    const NodeId& node = nodes_[report.node_index()]->id;
    const auto stored = coordinator_disk_.nodes.find(node.value());
    const std::string key =
        fmt::format("{} {} {} {}", event.job.value(), node.value(),
                    stored == coordinator_disk_.nodes.end() ? "" : stored->second.journal_id(),
                    report.event().SerializeAsString());
    if (++stored_reports_[key] > 1) {
      truth_.Violation(fmt::format("an event was stored twice: job {} {}", event.job.value(),
                                   report.event().ShortDebugString()));
    }
  }
}

// What an agent was told to be stored is stored, whatever happened to the coordinator since.
void World::CheckAcks() {
  for (const auto& node : nodes_) {
    if (node->agent == nullptr || !node->agent->alive()) continue;
    const AgentState& state = node->agent->core().state();
    if (state.acked_seq == 0) continue;
    const auto found = coordinator_disk_.nodes.find(node->id.value());
    if (found == coordinator_disk_.nodes.end() || found->second.journal_id() != state.journal_id ||
        found->second.acked_event_seq() < state.acked_seq) {
      truth_.Violation(fmt::format("{} holds an acknowledgement of event {} that is not stored",
                                   node->id.value(), state.acked_seq));
    }
  }
}

void World::CheckView(ClientJob& job, const v1::Job& view, bool whole) {
  if (job.view.state() >= v1::Job::SUCCEEDED &&
      (view.state() != job.view.state() || view.exit_code() != job.view.exit_code() ||
       view.cause() != job.view.cause())) {
    truth_.Violation(fmt::format("job {} left its terminal state {} for {}", view.job_id(),
                                 v1::Job::State_Name(job.view.state()),
                                 v1::Job::State_Name(view.state())));
  }
  if (view.attempt() < job.view.attempt() || view.revision() < job.view.revision()) {
    truth_.Violation(fmt::format("job {} went back from revision {} to {}", view.job_id(),
                                 job.view.revision(), view.revision()));
  }
  bool all_zero = view.ranks_size() > 0;
  for (const v1::JobRank& rank : view.ranks()) {
    const AttemptId id{JobId(view.job_id()), view.attempt()};
    const RankTruth& truth = truth_.Rank(id, rank.rank());
    all_zero = all_zero && truth.end == RankEnd{};
    if (rank.state() != v1::JobRank::EXITED) continue;
    RankEnd told;
    told.code = rank.status().exit_code();
    told.signal = rank.status().signal();
    told.exec_failed = rank.status().has_exec_failure();
    if (!truth.end || !(*truth.end == told)) {
      truth_.Violation(fmt::format("job {} rank {} is told to have ended otherwise than it did: {}",
                                   view.job_id(), rank.rank(), rank.status().ShortDebugString()));
    }
  }
  const bool zero = view.state() >= v1::Job::SUCCEEDED && view.exit_code() == 0;
  if (zero != (view.state() == v1::Job::SUCCEEDED)) {
    truth_.Violation(fmt::format("job {} has state {} and status {}", view.job_id(),
                                 v1::Job::State_Name(view.state()), view.exit_code()));
  }
  if (zero && whole && !all_zero) {
    truth_.Violation(
        fmt::format("job {} succeeded, but not every rank ended with 0", view.job_id()));
  }
  if (whole) job.view = view;
}

}  // namespace muster::testing
