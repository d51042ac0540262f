#include "agent/core/shim_events.h"

#include <google/protobuf/util/time_util.h>

#include <utility>

#include "agent/core/agent_state.h"

namespace muster {
namespace {

using google::protobuf::util::TimeUtil;
using internal::JournalAttempt;
using internal::JournalFacts;
using internal::JournalRank;
using internal::ShimRecord;

constexpr char kNoRecord[] = "no exit record was left by the process that supervised it";

JournalFacts FactsFor(const JournalAttempt& attempt) {
  JournalFacts facts;
  *facts.mutable_key() = attempt.assignment().key();
  return facts;
}

// Adds events of one moment to facts.
class Adder {
 public:
  Adder(JournalFacts& facts, int64_t time_ns) : facts_(facts), time_ns_(time_ns) {}

  v1::Event& Add() {
    v1::Event& event = *facts_.add_events();
    *event.mutable_event_time() = TimeUtil::NanosecondsToTimestamp(time_ns_);
    *event.mutable_key() = facts_.key();
    return event;
  }
  void AddLost(uint32_t rank, const std::string& reason) {
    v1::RankLost& lost = *Add().mutable_rank_lost();
    lost.set_rank(rank);
    lost.set_reason(reason);
  }

 private:
  JournalFacts& facts_;
  const int64_t time_ns_;
};

int64_t Nanoseconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

v1::ExitStatus StatusOf(const internal::ShimRankExited& exited) {
  v1::ExitStatus status;
  switch (exited.kind()) {
    case internal::ShimRankExited::CODE:
      status.set_exit_code(exited.value());
      break;
    case internal::ShimRankExited::SIGNAL:
      status.set_signal(exited.value());
      break;
    default: {
      v1::ExecFailure& failure = *status.mutable_exec_failure();
      failure.set_step(exited.step());
      failure.set_error_number(exited.value());
      failure.set_message(exited.message());
      break;
    }
  }
  status.set_oom_killed(exited.oom_killed());
  status.set_core_dumped(exited.core_dumped());
  status.set_card_problem(exited.card_problem());
  return status;
}

void AddPrepared(Adder& adder, const JournalAttempt& attempt,
                 const internal::ShimPrepared& prepared, const std::vector<std::string>& addresses,
                 const Inspection& inspection) {
  v1::Prepared& event = *adder.Add().mutable_prepared();
  for (const std::string& warning : inspection.warnings) event.add_warnings(warning);
  *event.mutable_report() = inspection.report;
  event.mutable_placements()->Assign(inspection.placements.begin(), inspection.placements.end());
  for (const std::string& warning : prepared.warnings()) event.add_warnings(warning);
  const v1::LaunchSpec& launch = attempt.assignment().launch();
  if (!launch.has_rendezvous()) return;
  event.set_rendezvous_port(prepared.port());
  if (!launch.rendezvous().address().empty()) {
    event.add_addresses(launch.rendezvous().address());
  } else {
    for (const std::string& address : addresses) event.add_addresses(address);
  }
}

void AddStopped(Adder& adder, const JournalAttempt& attempt, const internal::ShimStopped& stopped) {
  for (const JournalRank& rank : attempt.ranks()) {
    if (rank.state() == JournalRank::RUNNING) adder.AddLost(rank.rank(), kNoRecord);
  }
  v1::AttemptStopped& event = *adder.Add().mutable_attempt_stopped();
  event.set_killed_leftovers(stopped.killed_leftovers());
  for (const std::string& text : stopped.unkillable()) event.add_unkillable(text);
  event.set_own_reason(attempt.own_reason());
}

}  // namespace

JournalFacts FactsOf(const JournalAttempt& attempt, const ShimRecord& record,
                     const std::vector<std::string>& addresses, const Inspection& inspection) {
  JournalFacts facts = FactsFor(attempt);
  facts.set_shim_index(record.index());
  Adder adder(facts, record.time_ns());
  switch (record.body_case()) {
    case ShimRecord::kPrepared:
      AddPrepared(adder, attempt, record.prepared(), addresses, inspection);
      break;
    case ShimRecord::kPrepareFailed: {
      v1::PrepareFailed& failed = *adder.Add().mutable_prepare_failed();
      for (const internal::ShimProblem& problem : record.prepare_failed().problems()) {
        v1::Problem& added = *failed.add_problems();
        added.set_check(problem.check());
        added.set_message(problem.message());
      }
      // Nothing was started and nothing will be.
      adder.Add().mutable_attempt_stopped();
      break;
    }
    case ShimRecord::kRankStarted: {
      v1::RankStarted& started = *adder.Add().mutable_rank_started();
      started.set_rank(record.rank_started().rank());
      started.set_pid(record.rank_started().pid());
      break;
    }
    case ShimRecord::kRankExited: {
      v1::RankExited& exited = *adder.Add().mutable_rank_exited();
      exited.set_rank(record.rank_exited().rank());
      *exited.mutable_status() = StatusOf(record.rank_exited());
      break;
    }
    case ShimRecord::kLogClosed: {
      v1::RankLogClosed& closed = *adder.Add().mutable_rank_log_closed();
      closed.set_rank(record.log_closed().rank());
      closed.set_size(record.log_closed().size());
      closed.set_written_bytes(record.log_closed().written_bytes());
      closed.set_dropped_bytes(record.log_closed().dropped_bytes());
      break;
    }
    case ShimRecord::kRankStalled: {
      v1::RankStalled& stalled = *adder.Add().mutable_rank_stalled();
      stalled.set_rank(record.rank_stalled().rank());
      *stalled.mutable_silent() =
          TimeUtil::MillisecondsToDuration(static_cast<int64_t>(record.rank_stalled().silent_ms()));
      stalled.set_detail(record.rank_stalled().detail());
      break;
    }
    case ShimRecord::kRankResumed: {
      v1::RankResumed& resumed = *adder.Add().mutable_rank_resumed();
      resumed.set_rank(record.rank_resumed().rank());
      *resumed.mutable_silent() =
          TimeUtil::MillisecondsToDuration(static_cast<int64_t>(record.rank_resumed().silent_ms()));
      break;
    }
    case ShimRecord::kSelfStop:
      facts.set_own_reason(record.self_stop().reason());
      break;
    case ShimRecord::kStopped:
      AddStopped(adder, attempt, record.stopped());
      break;
    case ShimRecord::kBegun:
    case ShimRecord::kLogsGrew:  // No record, and told elsewhere.
    case ShimRecord::BODY_NOT_SET:
      break;
  }
  return facts;
}

JournalFacts FactsOfRefusal(const JournalAttempt& attempt, const std::vector<v1::Problem>& problems,
                            WallTime now) {
  JournalFacts facts = FactsFor(attempt);
  Adder adder(facts, Nanoseconds(now));
  v1::PrepareFailed& failed = *adder.Add().mutable_prepare_failed();
  failed.mutable_problems()->Assign(problems.begin(), problems.end());
  adder.Add().mutable_attempt_stopped();
  return facts;
}

JournalFacts FactsOfDeath(const JournalAttempt& attempt, const std::string& reason,
                          const Launcher::SweepResult& swept, WallTime now) {
  JournalFacts facts = FactsFor(attempt);
  Adder adder(facts, Nanoseconds(now));
  const bool wanted_prepared = attempt.assignment().desired() <= v1::Assignment::PREPARED;
  if (wanted_prepared && !attempt.prepared() && !attempt.run_wanted()) {
    v1::Problem& problem = *adder.Add().mutable_prepare_failed()->add_problems();
    problem.set_check("supervisor");
    problem.set_message(reason);
  } else if (wanted_prepared || attempt.run_wanted()) {
    for (const JournalRank& rank : attempt.ranks()) {
      if (rank.state() == JournalRank::WAITING || rank.state() == JournalRank::RUNNING) {
        adder.AddLost(rank.rank(), reason);
      }
    }
  }
  if (attempt.run_wanted()) {
    for (const JournalRank& rank : attempt.ranks()) {
      if (rank.log_closed()) continue;
      v1::RankLogClosed& closed = *adder.Add().mutable_rank_log_closed();
      closed.set_rank(rank.rank());
      for (const Launcher::LogSize& log : swept.logs) {
        if (log.rank == rank.rank()) closed.set_size(log.bytes);
      }
    }
  }
  v1::AttemptStopped& stopped = *adder.Add().mutable_attempt_stopped();
  stopped.set_killed_leftovers(swept.killed);
  for (const std::string& text : swept.unkillable) stopped.add_unkillable(text);
  stopped.set_own_reason(attempt.own_reason());
  return facts;
}

JournalFacts FactsOfNothing(const JournalAttempt& attempt, const std::string& lost_reason,
                            WallTime now) {
  JournalFacts facts = FactsFor(attempt);
  Adder adder(facts, Nanoseconds(now));
  if (!lost_reason.empty()) {
    for (const JournalRank& rank : attempt.ranks()) {
      if (rank.state() != JournalRank::EXITED && rank.state() != JournalRank::LOST) {
        adder.AddLost(rank.rank(), lost_reason);
      }
    }
  }
  adder.Add().mutable_attempt_stopped();
  return facts;
}

JournalFacts FactsOfProbe(const JournalAttempt& attempt, std::vector<v1::ProbedAddress> answers,
                          WallTime now) {
  JournalFacts facts = FactsFor(attempt);
  Adder adder(facts, Nanoseconds(now));
  v1::RendezvousProbed& probed = *adder.Add().mutable_rendezvous_probed();
  for (v1::ProbedAddress& answer : answers) *probed.add_addresses() = std::move(answer);
  return facts;
}

}  // namespace muster
