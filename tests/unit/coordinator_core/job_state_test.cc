// The pure parts: the table of states, Apply, Decide and what follows from a record.
#include "coordinator/core/job_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <random>

#include "coordinator/core/job_outcome.h"
#include "coordinator/core/job_policy.h"
#include "coordinator/core/job_text.h"
#include "coordinator/core/job_times.h"
#include "coordinator/core/proto_time.h"
#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using internal::JobEvent;
using std::chrono::milliseconds;
using std::chrono::seconds;
using v1::Job;

constexpr int kNodes = 3;
constexpr int kRanks = 6;

JobEvent Stamped(JobEvent event, int64_t second) {
  event.mutable_time()->set_seconds(1'700'000'000 + second);
  return event;
}

JobEvent Submitted() {
  JobEvent event;
  *event.mutable_submitted()->mutable_spec() = World::Spec({"node-0", "node-1", "node-2"});
  return Stamped(event, 0);
}

JobEvent Planned(uint32_t attempt = 1) {
  JobEvent event;
  internal::AttemptPlanned& planned = *event.mutable_planned();
  planned.set_attempt(attempt);
  for (int i = 0; i < kNodes; ++i) {
    internal::PlannedHost& node = *planned.add_nodes();
    node.set_host("node-" + std::to_string(i));
    node.set_node_id(node.host());
    node.set_boot_id("b");
    node.set_journal_id("j");
  }
  for (int i = 0; i < kRanks; ++i) {
    internal::PlannedRank& rank = *planned.add_ranks();
    rank.set_node_index(i / 2);
    rank.set_local_rank(i % 2);
    rank.set_slot(i % 2);
  }
  return Stamped(event, 1);
}

JobEvent Reported(uint32_t node, v1::Event event, uint32_t attempt = 1) {
  JobEvent out;
  out.mutable_reported()->set_node_index(node);
  event.mutable_key()->set_attempt(attempt);
  *out.mutable_reported()->mutable_event() = std::move(event);
  return Stamped(out, 2);
}

JobEvent Prepared(uint32_t node) {
  v1::Event event;
  event.mutable_prepared()->add_addresses("10.0.0.1");
  return Reported(node, event);
}

// Folds and counts like the real thing; fails the test when a record contradicts itself.
void ExpectConsistent(const JobRecord& job) {
  EXPECT_EQ(job.terminal(), IsTerminal(job.state));
  for (const AttemptRecord& attempt : job.attempts) {
    uint32_t prepared = 0, failed = 0, settled = 0, over = 0, zero = 0;
    for (const NodeProgress& node : attempt.nodes) {
      settled += node.settled();
      failed += node.phase == v1::JobNode::PREPARE_FAILED;
      prepared += node.phase == v1::JobNode::PREPARED;
    }
    for (const RankProgress& rank : attempt.ranks) {
      over += rank.over();
      zero += rank.exited_with_zero();
    }
    EXPECT_EQ(attempt.settled_nodes, settled);
    EXPECT_EQ(attempt.prepare_failed_nodes, failed);
    EXPECT_EQ(attempt.over_ranks, over);
    EXPECT_EQ(attempt.zero_ranks, zero);
    if (job.state == Job::PREPARING && &attempt == job.live_attempt()) {
      EXPECT_EQ(attempt.prepared_nodes, prepared);
    }
  }
}

TEST(MayMove, TerminalStatesAreFinal) {
  for (int from = Job::State_MIN; from <= Job::State_MAX; ++from) {
    for (int to = Job::State_MIN; to <= Job::State_MAX; ++to) {
      if (IsTerminal(static_cast<Job::State>(from))) {
        EXPECT_FALSE(MayMove(static_cast<Job::State>(from), static_cast<Job::State>(to)));
      }
      if (from == to) {
        EXPECT_FALSE(MayMove(static_cast<Job::State>(from), static_cast<Job::State>(to)));
      }
    }
  }
  EXPECT_FALSE(MayMove(Job::PENDING, Job::RUNNING));
  EXPECT_FALSE(MayMove(Job::RUNNING, Job::CANCELLED)) << "only after a stop";
}

TEST(Apply, LeavesTheRecordUnchangedForWhatDoesNotFit) {
  JobRecord job = Apply({}, Prepared(0));
  EXPECT_EQ(job.revision, 0u) << "before it was submitted";
  job = Apply(std::move(job), Submitted());
  job = Apply(std::move(job), Submitted());
  EXPECT_EQ(job.revision, 1u) << "twice";
  job = Apply(std::move(job), Prepared(0));
  job = Apply(std::move(job), Planned(2));
  job = Apply(std::move(job), JobEvent());
  EXPECT_EQ(job.revision, 1u) << "without an attempt, the wrong attempt, of a newer version";
  job = Apply(std::move(job), Planned());
  job = Apply(std::move(job), Prepared(0));
  const uint64_t revision = job.revision;
  job = Apply(std::move(job), Prepared(0));
  job = Apply(std::move(job), Prepared(17));
  v1::Event other;
  other.mutable_rank_started()->set_rank(5);
  job = Apply(std::move(job), Reported(0, other));
  other.mutable_rank_started()->set_rank(99);
  job = Apply(std::move(job), Reported(0, other));
  JobEvent gang;
  gang.mutable_gang_started()->set_attempt(1);
  job = Apply(std::move(job), gang);
  EXPECT_EQ(job.revision, revision);
  EXPECT_EQ(job.state, Job::PREPARING);
}

TEST(Apply, KeepsWhereANodeHasPutItsRanks) {
  JobRecord job = Apply(Apply({}, Submitted()), Planned());
  v1::Event event;
  for (const uint32_t rank : {1u, 4u, 99u}) {
    v1::RankPlacement& placement = *event.mutable_prepared()->add_placements();
    placement.set_rank(rank);
    placement.set_cpus("0-5");
    placement.set_reason("near\nits card");
  }
  job = Apply(std::move(job), Reported(0, event));
  const std::vector<RankProgress>& ranks = job.attempts[0].ranks;
  ASSERT_TRUE(ranks[1].placement.has_value());
  EXPECT_EQ(ranks[1].placement->cpus(), "0-5");
  EXPECT_EQ(ranks[1].placement->reason().find('\n'), std::string::npos);
  EXPECT_FALSE(ranks[0].placement.has_value());
  EXPECT_FALSE(ranks[4].placement.has_value()) << "it is another node's";
}

TEST(Apply, AStartNeedsEveryNode) {
  JobRecord job = Apply(Apply({}, Submitted()), Planned());
  JobEvent gang;
  gang.mutable_gang_started()->set_attempt(1);
  for (uint32_t node = 0; node < kNodes; ++node) {
    EXPECT_EQ(Apply(job, gang).state, Job::PREPARING);
    job = Apply(std::move(job), Prepared(node));
  }
  EXPECT_EQ(Apply(job, gang).state, Job::RUNNING);
}

TEST(Apply, RejectsPlansThatContradictThemselves) {
  const JobRecord job = Apply({}, Submitted());
  JobEvent plan = Planned();
  plan.mutable_planned()->mutable_ranks(0)->set_node_index(9);
  EXPECT_EQ(Apply(job, plan).state, Job::PENDING);
  plan.mutable_planned()->clear_ranks();
  EXPECT_EQ(Apply(job, plan).state, Job::PENDING);
}

// Everything that can happen to a job, in any order, with decisions taken now and then.
class RandomLife {
 public:
  explicit RandomLife(uint32_t seed) : random_(seed) { limits_.probe_rendezvous = Chance(2); }

  void Run() {
    JobEvent submitted = Submitted();
    v1::JobSpec& spec = *submitted.mutable_submitted()->mutable_spec();
    if (Chance(2)) spec.mutable_time_limit()->set_seconds(20);
    if (Chance(2)) spec.mutable_restart()->set_max_attempts(1 + Pick(3));
    Fold(submitted);
    for (int i = 0; i < 300; ++i) {
      now_ += milliseconds(Pick(2000));
      if (::testing::Test::HasFailure()) return;
      if (Chance(3)) DecideNow();
      Fold(RandomEvent());
    }
    // Faults stop: every node answers, decisions are taken.
    for (int i = 0; i < 50 && !job_.terminal(); ++i) {
      now_ += seconds(400);
      DecideNow();
    }
    EXPECT_TRUE(job_.terminal()) << Job::State_Name(job_.state);
    EXPECT_NE(job_.outcome->reason(), "");
    EXPECT_EQ(job_.outcome->exit_code() == 0, job_.state == Job::SUCCEEDED);
    if (job_.state == Job::SUCCEEDED) {
      EXPECT_TRUE(job_.attempts.back().all_zero());
    }
  }

 private:
  uint32_t Pick(uint32_t n) { return random_() % n; }
  bool Chance(uint32_t n) { return Pick(n) == 0; }

  void Fold(const JobEvent& event) {
    const JobRecord before = job_;
    std::vector<uint64_t> generations;
    for (const AttemptRecord& attempt : job_.attempts) generations.push_back(GenerationOf(attempt));
    job_ = Apply(std::move(job_), event);
    UpdateTimes(times_, job_, now_);
    ExpectConsistent(job_);
    EXPECT_LE(before.revision, job_.revision);
    EXPECT_LE(job_.revision, before.revision + 1);
    if (before.state != job_.state) {
      EXPECT_TRUE(MayMove(before.state, job_.state));
      if (job_.state == Job::RUNNING) {
        for (const NodeProgress& node : job_.attempts.back().nodes) {
          EXPECT_TRUE(!node.probe_asked || node.probed.has_value()) << "started unprobed";
        }
        EXPECT_EQ(job_.attempts.back().prepare_failed_nodes, 0u);
        EXPECT_FALSE(job_.cancel.has_value());
      }
    }
    if (before.terminal()) {
      EXPECT_EQ(before.outcome->SerializeAsString(), job_.outcome->SerializeAsString());
    }
    for (size_t i = 0; i < generations.size(); ++i) {
      EXPECT_GE(GenerationOf(job_.attempts[i]), generations[i]) << "a generation went back";
    }
    // Folding the same again changes nothing, apart from a cancel that shortens the grace twice.
    EXPECT_EQ(Apply(job_, event).revision, job_.revision);
  }

  void DecideNow() {
    Placement placement;
    if (job_.state == Job::PENDING && Chance(2)) {
      placement.planned = Planned(static_cast<uint32_t>(job_.attempts.size()) + 1).planned();
    } else {
      placement.missing = {"node-9"};
    }
    for (int round = 0;; ++round) {
      ASSERT_LT(round, 20) << "decisions never come to rest in " << Job::State_Name(job_.state);
      const ProbeView view{.able = {0, 1, 2}, .ambiguous = {}};
      const ProbeView* const probe = Chance(4) ? nullptr : &view;
      const Decision decision = Decide(job_, times_, &placement, probe, limits_, now_);
      const Decision again = Decide(job_, times_, &placement, probe, limits_, now_);
      ASSERT_EQ(decision.events.size(), again.events.size());
      if (decision.events.empty()) {
        if (!job_.terminal() && job_.state != Job::RUNNING) {
          EXPECT_TRUE(decision.wake.has_value()) << "it would sleep for ever";
        }
        return;
      }
      const uint64_t revision = job_.revision;
      for (const JobEvent& event : decision.events) Fold(Stamped(event, 3));
      ASSERT_GT(job_.revision, revision) << "a decision had no effect";
    }
  }

  JobEvent RandomEvent() {
    const uint32_t attempts = static_cast<uint32_t>(job_.attempts.size());
    const uint32_t attempt = attempts == 0 ? 1 : (Chance(5) ? 1 + Pick(attempts) : attempts);
    const uint32_t node = Pick(kNodes);
    const uint32_t rank = 2 * node + Pick(2);
    v1::Event event;
    event.mutable_event_time()->set_seconds(1'700'000'000 + Pick(100));
    switch (Pick(18)) {
      case 16:
      case 17: {
        v1::ProbedAddress& probed = *event.mutable_rendezvous_probed()->add_addresses();
        probed.set_address(Chance(8) ? "10.9.9.9" : "node-1");
        if (Chance(4)) probed.set_error("connection refused");
        break;
      }
      case 0:
      case 1:
      case 2:
      case 3:
        event.mutable_prepared();
        break;
      case 4:
        if (!Chance(4)) return JobEvent();
        event.mutable_prepare_failed()->add_problems()->set_message("x");
        break;
      case 5:
      case 6:
        event.mutable_rank_started()->set_rank(rank);
        break;
      case 7:
      case 8:
        event.mutable_rank_exited()->set_rank(rank);
        event.mutable_rank_exited()->mutable_status()->set_exit_code(Chance(4) ? 1 + Pick(9) : 0);
        break;
      case 9:
        event.mutable_rank_exited()->set_rank(rank);
        event.mutable_rank_exited()->mutable_status()->set_signal(SIGTERM);
        break;
      case 10:
        if (!Chance(4)) return JobEvent();
        event.mutable_rank_lost()->set_rank(rank);
        break;
      case 11:
        event.mutable_rank_log_closed()->set_rank(rank);
        break;
      case 12:
        event.mutable_attempt_stopped();
        if (Chance(4)) event.mutable_attempt_stopped()->set_own_reason("lease");
        if (Chance(8)) event.mutable_attempt_stopped()->add_unkillable("pid 7");
        break;
      case 13: {
        if (!Chance(8)) return JobEvent();
        JobEvent lost;
        lost.mutable_node_lost()->set_attempt(attempt);
        lost.mutable_node_lost()->set_node_index(node);
        lost.mutable_node_lost()->set_reason("silence");
        lost.mutable_node_lost()->set_fenced(Chance(2));
        return lost;
      }
      case 14: {
        if (!Chance(8)) return JobEvent();
        JobEvent cancel;
        cancel.mutable_cancel_requested()->set_signal(SIGINT);
        cancel.mutable_cancel_requested()->mutable_grace()->set_seconds(Pick(5));
        return cancel;
      }
      default:
        return JobEvent();
    }
    return Reported(node, event, attempt);
  }

  std::mt19937 random_;
  PolicyLimits limits_;
  JobRecord job_;
  JobTimes times_;
  TimePoint now_{seconds(1000)};
};

TEST(Apply, KeepsItsInvariantsWhateverHappens) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    RandomLife(seed).Run();
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(AssignmentFor, FollowsTheRecord) {
  JobRecord job = Apply(Apply({}, Submitted()), Planned());
  v1::Assignment assignment = AssignmentFor(JobId("a"), job.attempts[0], 1, false);
  EXPECT_EQ(assignment.desired(), v1::Assignment::PREPARED);
  EXPECT_EQ(assignment.generation(), 1u);
  for (uint32_t node = 0; node < kNodes; ++node) job = Apply(std::move(job), Prepared(node));
  JobEvent gang;
  gang.mutable_gang_started()->set_attempt(1);
  gang.mutable_gang_started()->mutable_rendezvous()->set_port(1);
  job = Apply(std::move(job), gang);
  assignment = AssignmentFor(JobId("a"), job.attempts[0], 1, true);
  EXPECT_EQ(assignment.desired(), v1::Assignment::RUNNING) << "never released before its end";
  EXPECT_EQ(assignment.generation(), 2u);
  EXPECT_EQ(assignment.rendezvous().port(), 1u);
}

TEST(ExitCodeOf, OfAContainerEngineThatFailedIsTheEngines) {
  v1::ExitStatus status;
  status.mutable_exec_failure()->set_error_number(EIO);
  status.mutable_exec_failure()->set_step("engine");
  EXPECT_EQ(ExitCodeOf(status), 125);
  status.mutable_exec_failure()->set_step("container");
  EXPECT_EQ(ExitCodeOf(status), 126);
  status.mutable_exec_failure()->set_error_number(ENOENT);
  EXPECT_EQ(ExitCodeOf(status), 127);
}

TEST(ExitCodeOf, IsNever0) {
  v1::ExitStatus status;
  EXPECT_EQ(ExitCodeOf(status), 125);
  status.set_exit_code(0);
  EXPECT_EQ(ExitCodeOf(status), 125);
  status.set_exit_code(255);
  EXPECT_EQ(ExitCodeOf(status), 255);
  status.set_signal(SIGSEGV);
  EXPECT_EQ(ExitCodeOf(status), 139);
  status.set_signal(0);
  EXPECT_EQ(ExitCodeOf(status), 125);
}

TEST(DescribeDuration, IsShort) {
  EXPECT_EQ(DescribeDuration(seconds(0)), "0s");
  EXPECT_EQ(DescribeDuration(milliseconds(2500)), "2.5s");
  EXPECT_EQ(DescribeDuration(seconds(90)), "1m30s");
  EXPECT_EQ(DescribeDuration(std::chrono::hours(24)), "24h");
}

TEST(ProtoTime, ConvertsBothWays) {
  const WallTime time = WallTime(seconds(1'700'000'000)) + milliseconds(250);
  EXPECT_EQ(ToWallTime(ToTimestamp(time)), time);
  EXPECT_EQ(ToTimestamp(WallTime(seconds(-1)) - milliseconds(500)).nanos(), 500'000'000);
  EXPECT_EQ(ToDuration(ToProtoDuration(milliseconds(1500))), milliseconds(1500));
  google::protobuf::Duration huge;
  huge.set_seconds(INT64_MAX);
  EXPECT_GT(TimePoint(seconds(1'000'000)) + ToDuration(huge), TimePoint(seconds(1'000'000)));
  huge.set_seconds(-1);
  EXPECT_EQ(ToDuration(huge), Duration::zero());
  google::protobuf::Timestamp far;
  far.set_seconds(INT64_MAX);
  EXPECT_GT(ToNanoseconds(far), 0);
}

}  // namespace
}  // namespace muster::testing
