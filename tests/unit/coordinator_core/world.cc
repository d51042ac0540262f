#include "tests/unit/coordinator_core/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/version.h"
#include "coordinator/core/proto_time.h"

namespace muster::testing {

void FakeAgent::Send(v1::CoordinatorMessage message) {
  const auto keep = [this](const v1::Assignment& assignment) {
    const AttemptId id{JobId(assignment.key().job_id()), assignment.key().attempt()};
    v1::Assignment& held = assignments[id];
    EXPECT_GE(assignment.generation(), held.generation()) << "a generation went back";
    if (!assignment.has_launch() && held.has_launch()) {
      const v1::LaunchSpec launch = held.launch();
      held = assignment;
      *held.mutable_launch() = launch;
    } else {
      held = assignment;
    }
    if (assignment.desired() == v1::Assignment::RELEASED) assignments.erase(id);
  };
  if (message.has_welcome()) welcome = message.welcome();
  if (message.has_snapshot()) {
    std::map<AttemptId, v1::Assignment> before;
    before.swap(assignments);
    for (const v1::Assignment& assignment : message.snapshot().assignments()) {
      const AttemptId id{JobId(assignment.key().job_id()), assignment.key().attempt()};
      if (before.contains(id)) assignments[id] = before[id];
      keep(assignment);
    }
  }
  if (message.has_assignment()) keep(message.assignment());
  if (message.has_event_ack()) {
    EXPECT_GE(message.event_ack().acked_seq(), acked_seq) << "an ack went back";
    acked_seq = message.event_ack().acked_seq();
  }
  if (message.has_signal()) signals.push_back(message.signal());
  inbox.push_back(std::move(message));
}

const v1::Assignment* FakeAgent::Find(const JobId& job, uint32_t attempt) const {
  const auto it = assignments.find({job, attempt});
  return it == assignments.end() ? nullptr : &it->second;
}

v1::Assignment::Desired FakeAgent::Desired(const JobId& job, uint32_t attempt) const {
  const v1::Assignment* assignment = Find(job, attempt);
  return assignment == nullptr ? v1::Assignment::DESIRED_UNSPECIFIED : assignment->desired();
}

World::World(CoordinatorOptions options) : options_(std::move(options)) {
  options_.note = [this](NoteLevel, std::string_view line) { notes_.emplace_back(line); };
  StartCore();
}

World::~World() { core_.reset(); }

void World::StartCore() {
  executor_ = std::make_unique<SimExecutor>(queue_);
  store_ = std::make_unique<DiskStore>(*executor_, disk_);
  core_ = std::make_unique<CoordinatorCore>(options_, *executor_, *store_, [this] {
    // SplitMix64.
    uint64_t z = (random_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  });
  const absl::Status started = core_->Start();
  EXPECT_TRUE(started.ok()) << started;
  Settle();
}

void World::Crash() {
  core_.reset();
  store_.reset();
  executor_.reset();
  for (auto& [name, agent] : agents_) agent->session = SessionHandle::kNone;
}

void World::Restart() {
  if (core_ != nullptr) Crash();
  StartCore();
}

FakeAgent& World::Join(const std::string& node, int slots) {
  std::unique_ptr<FakeAgent>& agent = agents_[node];
  if (agent == nullptr) {
    agent = std::make_unique<FakeAgent>(node);
    v1::Hello& hello = agent->hello;
    hello.set_agent_instance_id(node + "-instance");
    hello.set_boot_id(node + "-boot-1");
    hello.set_journal_id(node + "-journal-1");
    hello.mutable_version()->set_major(kProtocolMajor);
    hello.mutable_facts()->set_hostname(node);
    hello.mutable_facts()->add_addresses("10.0.0." + std::to_string(agents_.size()));
    hello.add_capabilities("rendezvous-probe");
    for (int i = 0; i < slots; ++i) hello.mutable_facts()->add_slots(i);
  }
  Connect(node);
  return *agent;
}

void World::JoinAll(const std::vector<std::string>& nodes, int slots) {
  for (const std::string& node : nodes) Join(node, slots);
}

void World::Connect(const std::string& node) {
  FakeAgent& agent = Agent(node);
  agent.inbox.clear();
  agent.closed.reset();
  agent.welcome.reset();
  agent.session = core_->OnAgentConnected(&agent);
  v1::AgentMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello = agent.hello;
  hello.clear_attempts();
  for (const auto& [id, assignment] : agent.assignments) {
    v1::AttemptReport& report = *hello.add_attempts();
    report.mutable_key()->set_job_id(id.job.value());
    report.mutable_key()->set_attempt(id.attempt);
    report.set_generation(assignment.generation());
  }
  if (agent.acked_seq < agent.journal.size()) hello.set_oldest_event_seq(agent.acked_seq + 1);
  hello.set_steady_ns(agent.greeting.steady_ns() + 1);
  agent.greeting = hello;
  core_->OnAgentMessage(agent.session, std::move(message));
  Settle();
  if (agent.welcome.has_value()) {
    agent.acked_seq = std::max(agent.acked_seq, agent.welcome->acked_event_seq());
    Resend(node, agent.welcome->acked_event_seq());
    Beat(agent, agent.session);
  }
}

void World::Beat(FakeAgent& agent, SessionHandle session) {
  if (agent.session != session || session == SessionHandle::kNone) return;
  if (agent.beating && core_ != nullptr) {
    v1::AgentMessage message;
    message.mutable_heartbeat()->set_sequence(++agent.heartbeats);
    *message.mutable_heartbeat()->mutable_send_time() =
        ToTimestamp(clock().WallNow() + agent.clock_offset);
    core_->OnAgentMessage(session, std::move(message));
  }
  outside_.PostAfter(ToDuration(agent.welcome->heartbeat_interval()),
                     [this, &agent, session] { Beat(agent, session); });
}

void World::Disconnect(const std::string& node) {
  FakeAgent& agent = Agent(node);
  if (agent.session == SessionHandle::kNone) return;
  core_->OnAgentDisconnected(agent.session);
  agent.session = SessionHandle::kNone;
  Settle();
}

void World::Tell(const std::string& node, v1::Event event) {
  FakeAgent& agent = Agent(node);
  event.set_seq(agent.journal.size() + 1);
  if (!event.has_event_time()) {
    *event.mutable_event_time() = ToTimestamp(clock().WallNow() + agent.clock_offset);
  }
  agent.journal.push_back(event);
  v1::EventBatch batch;
  *batch.add_events() = std::move(event);
  SendEvents(node, std::move(batch));
}

void World::Resend(const std::string& node, uint64_t after) {
  FakeAgent& agent = Agent(node);
  v1::EventBatch batch;
  for (size_t i = after; i < agent.journal.size(); ++i) *batch.add_events() = agent.journal[i];
  if (batch.events_size() > 0) SendEvents(node, std::move(batch));
}

void World::SendEvents(const std::string& node, v1::EventBatch batch) {
  FakeAgent& agent = Agent(node);
  if (agent.session == SessionHandle::kNone) return;
  v1::AgentMessage message;
  *message.mutable_events() = std::move(batch);
  core_->OnAgentMessage(agent.session, std::move(message));
  Settle();
}

uint32_t World::AttemptOf(const JobId& job) {
  const auto shape = core_->ShapeOf(job);
  return shape.has_value() ? shape->attempts : 0;
}

v1::Event World::EventOf(const std::string&, std::optional<uint32_t> attempt) {
  v1::Event event;
  event.mutable_key()->set_job_id(newest_.value());
  event.mutable_key()->set_attempt(attempt.value_or(AttemptOf(newest_)));
  return event;
}

void World::Prepared(const std::string& node) {
  v1::Event event = EventOf(node);
  for (const std::string& address : Agent(node).hello.facts().addresses()) {
    event.mutable_prepared()->add_addresses(address);
  }
  event.mutable_prepared()->set_rendezvous_port(29500);
  Tell(node, std::move(event));
}

void World::PreparedAll() {
  const v1::Job job = Job(newest_);
  for (const v1::JobNode& node : job.nodes()) Prepared(node.node_id());
}

void World::Probed(const std::string& node, const std::map<std::string, std::string>& errors) {
  v1::Event event = EventOf(node);
  const v1::Assignment* const assignment = Agent(node).Find(newest_, AttemptOf(newest_));
  ASSERT_NE(assignment, nullptr);
  for (const std::string& address : assignment->probe().addresses()) {
    v1::ProbedAddress& one = *event.mutable_rendezvous_probed()->add_addresses();
    one.set_address(address);
    const auto found = errors.find(address);
    if (found != errors.end()) one.set_error(found->second);
  }
  Tell(node, std::move(event));
}

void World::PrepareFailed(const std::string& node, const std::string& message) {
  v1::Event event = EventOf(node);
  v1::Problem& problem = *event.mutable_prepare_failed()->add_problems();
  problem.set_check("check");
  problem.set_message(message);
  Tell(node, std::move(event));
}

std::string World::NodeOfRank(uint32_t rank) {
  const v1::Job job = Job(newest_);
  return job.nodes(static_cast<int>(job.ranks(static_cast<int>(rank)).node_index())).node_id();
}

void World::Started(uint32_t rank) {
  const std::string node = NodeOfRank(rank);
  v1::Event event = EventOf(node);
  event.mutable_rank_started()->set_rank(rank);
  event.mutable_rank_started()->set_pid(1000 + static_cast<int>(rank));
  Tell(node, std::move(event));
}

void World::StartedAll() {
  const uint32_t ranks = Job(newest_).world_size();
  for (uint32_t rank = 0; rank < ranks; ++rank) Started(rank);
}

void World::Exited(uint32_t rank, int code) {
  const std::string node = NodeOfRank(rank);
  v1::Event event = EventOf(node);
  event.mutable_rank_exited()->set_rank(rank);
  event.mutable_rank_exited()->mutable_status()->set_exit_code(code);
  Tell(node, std::move(event));
}

void World::Stalled(uint32_t rank, const std::string& detail) {
  const std::string node = NodeOfRank(rank);
  v1::Event event = EventOf(node);
  event.mutable_rank_stalled()->set_rank(rank);
  event.mutable_rank_stalled()->mutable_silent()->set_seconds(120);
  event.mutable_rank_stalled()->set_detail(detail);
  Tell(node, std::move(event));
}

void World::Resumed(uint32_t rank) {
  const std::string node = NodeOfRank(rank);
  v1::Event event = EventOf(node);
  event.mutable_rank_resumed()->set_rank(rank);
  event.mutable_rank_resumed()->mutable_silent()->set_seconds(180);
  Tell(node, std::move(event));
}

void World::Killed(uint32_t rank, int signal, bool oom) {
  const std::string node = NodeOfRank(rank);
  v1::Event event = EventOf(node);
  event.mutable_rank_exited()->set_rank(rank);
  event.mutable_rank_exited()->mutable_status()->set_signal(signal);
  event.mutable_rank_exited()->mutable_status()->set_oom_killed(oom);
  Tell(node, std::move(event));
}

void World::ExecFailed(uint32_t rank, const std::string& step, int error_number) {
  const std::string node = NodeOfRank(rank);
  v1::Event event = EventOf(node);
  event.mutable_rank_exited()->set_rank(rank);
  v1::ExecFailure& failure = *event.mutable_rank_exited()->mutable_status()->mutable_exec_failure();
  failure.set_step(step);
  failure.set_error_number(error_number);
  failure.set_message("it did not work");
  Tell(node, std::move(event));
}

void World::Lost(uint32_t rank, const std::string& reason) {
  const std::string node = NodeOfRank(rank);
  v1::Event event = EventOf(node);
  event.mutable_rank_lost()->set_rank(rank);
  event.mutable_rank_lost()->set_reason(reason);
  Tell(node, std::move(event));
}

void World::LogClosed(uint32_t rank, uint64_t size) {
  const std::string node = NodeOfRank(rank);
  v1::Event event = EventOf(node);
  event.mutable_rank_log_closed()->set_rank(rank);
  event.mutable_rank_log_closed()->set_size(size);
  event.mutable_rank_log_closed()->set_written_bytes(size);
  Tell(node, std::move(event));
}

void World::Stopped(const std::string& node, const std::string& own_reason) {
  v1::Event event = EventOf(node);
  event.mutable_attempt_stopped()->set_own_reason(own_reason);
  Tell(node, std::move(event));
}

void World::Unkillable(const std::string& node, const std::string& process) {
  v1::Event event = EventOf(node);
  event.mutable_attempt_stopped()->add_unkillable(process);
  Tell(node, std::move(event));
}

void World::StoppedAll() {
  const v1::Job job = Job(newest_);
  for (const v1::JobNode& node : job.nodes()) {
    if (node.phase() != v1::JobNode::STOPPED && node.phase() != v1::JobNode::LOST &&
        node.phase() != v1::JobNode::PREPARE_FAILED) {
      Stopped(node.node_id());
    }
  }
}

void World::FinishAll() {
  const v1::Job job = Job(newest_);
  for (const v1::JobRank& rank : job.ranks()) {
    if (rank.state() == v1::JobRank::RUNNING) Exited(rank.rank(), 0);
  }
  StoppedAll();
}

v1::JobSpec World::Spec(const std::vector<std::string>& hosts, int slots) {
  v1::JobSpec spec;
  spec.set_name("test");
  for (size_t i = 0; i < hosts.size(); ++i) {
    v1::HostEntry& host = *spec.add_hosts();
    host.set_host(hosts[i]);
    host.set_slot_count(slots);
    host.set_source(fmt::format("hostfile:{}", i + 1));
  }
  spec.mutable_program()->set_kind(v1::Program::COMMAND);
  spec.mutable_program()->set_target("/bin/true");
  spec.set_working_directory("/work");
  return spec;
}

absl::StatusOr<v1::Job> World::TrySubmit(v1::JobSpec spec, std::string request_id,
                                         std::string user) {
  v1::SubmitJobRequest request;
  request.set_request_id(std::move(request_id));
  *request.mutable_spec() = std::move(spec);
  return Await<v1::Job>([&](auto done) {
    core_->SubmitJob(std::move(request), Caller{std::move(user)}, std::move(done));
  });
}

JobId World::Submit(v1::JobSpec spec, std::string request_id) {
  const absl::StatusOr<v1::Job> job = TrySubmit(std::move(spec), std::move(request_id));
  EXPECT_TRUE(job.ok()) << job.status();
  if (job.ok()) newest_ = JobId(job->job_id());
  return newest_;
}

JobId World::SubmitAndStart(v1::JobSpec spec) {
  for (const v1::HostEntry& host : spec.hosts()) {
    if (!agents_.contains(host.host())) Join(host.host(), static_cast<int>(host.slot_count()));
  }
  const JobId job = Submit(std::move(spec));
  PreparedAll();
  StartedAll();
  EXPECT_EQ(Job(job).state(), v1::Job::RUNNING);
  return job;
}

v1::Job World::Job(const JobId& job) {
  v1::GetJobRequest request;
  request.set_job_id(job.value());
  absl::StatusOr<v1::Job> view = Await<v1::Job>(
      [&](auto done) { core_->GetJob(std::move(request), {"alice"}, std::move(done)); });
  EXPECT_TRUE(view.ok()) << view.status();
  return view.ok() ? *std::move(view) : v1::Job();
}

absl::StatusOr<v1::Job> World::TryCancel(v1::CancelJobRequest request) {
  return Await<v1::Job>(
      [&](auto done) { core_->CancelJob(std::move(request), {"alice"}, std::move(done)); });
}

v1::Job World::Cancel(const JobId& job, int signal, std::optional<int> grace_seconds) {
  v1::CancelJobRequest request;
  request.set_job_id(job.value());
  request.set_signal(signal);
  if (grace_seconds.has_value()) request.mutable_grace()->set_seconds(*grace_seconds);
  absl::StatusOr<v1::Job> view = TryCancel(std::move(request));
  EXPECT_TRUE(view.ok()) << view.status();
  return view.ok() ? *std::move(view) : v1::Job();
}

}  // namespace muster::testing
