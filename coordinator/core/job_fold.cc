#include "coordinator/core/job_fold.h"

#include <fmt/format.h>

#include <csignal>
#include <utility>

#include "coordinator/core/job_text.h"
#include "coordinator/core/proto_time.h"

namespace muster {
namespace {

using v1::Job;
using v1::JobNode;
using v1::JobRank;

// Whole seconds once there are some: more is of no use to people.
Duration SilenceOf(const auto& event) {
  const Duration silence = ToDuration(event.silent());
  if (silence < std::chrono::seconds(1)) return silence;
  return std::chrono::duration_cast<std::chrono::seconds>(silence);
}

// One report about one node of one attempt, and what it changes.
class ReportFold {
 public:
  // `clock_offset_ns`: clock of the node minus that of the coordinator.
  ReportFold(JobRecord& job, AttemptRecord& attempt, uint32_t node_index,
             int64_t clock_offset_ns = 0)
      : job_(job),
        attempt_(attempt),
        node_(attempt.nodes[node_index]),
        node_index_(node_index),
        clock_offset_ns_(clock_offset_ns) {}

  void OnPrepared(const v1::Prepared& event) {
    if (attempt_.over() || node_.phase != JobNode::PREPARING) return;
    node_.phase = JobNode::PREPARED;
    node_.addresses.assign(event.addresses().begin(), event.addresses().end());
    node_.rendezvous_port = event.rendezvous_port();
    node_.report = event.report();
    if (clock_offset_ns_ != 0) node_.clock_offset = std::chrono::nanoseconds(clock_offset_ns_);
    ++attempt_.prepared_nodes;
    for (const v1::RankPlacement& placement : event.placements()) {
      RankProgress* rank = FindRank(placement.rank());
      if (rank == nullptr) continue;
      rank->placement = placement;
      rank->placement->set_reason(OneLine(placement.reason()));
      TouchRank(placement.rank());
    }
    for (const std::string& warning : event.warnings()) {
      node_.warnings.push_back(OneLine(warning));
    }
    TouchNode();
  }

  void OnProbed(const v1::RendezvousProbed& event) {
    if (attempt_.over() || attempt_.rendezvous.has_value() || !node_.probe_asked ||
        node_.probed.has_value() || node_.settled()) {
      return;
    }
    node_.probed.emplace(event.addresses().begin(), event.addresses().end());
    ++attempt_.probes_answered;
    TouchNode();
  }

  void OnPrepareFailed(const v1::PrepareFailed& event) {
    if (node_.phase == JobNode::LOST) return SetGone();
    if (attempt_.over() || node_.settled()) return;
    for (uint32_t rank : node_.ranks) {
      if (attempt_.ranks[rank].state != JobRank::WAITING) return;  // It contradicts itself.
    }
    const bool late = node_.phase == JobNode::RUNNING;
    node_.problems.assign(event.problems().begin(), event.problems().end());
    if (node_.phase == JobNode::PREPARED) --attempt_.prepared_nodes;
    ++attempt_.prepare_failed_nodes;
    node_.gone = true;
    Settle(JobNode::PREPARE_FAILED);
    // Its ranks had been told to start and never will.
    if (late) FailNode(Job::PREPARE_FAILED, "could not start its ranks after all", {});
  }

  void OnRankStarted(const v1::RankStarted& event, const google::protobuf::Timestamp& node_time,
                     WallTime time) {
    RankProgress* rank = FindRank(event.rank());
    if (rank == nullptr || attempt_.over() || rank->state != JobRank::WAITING) return;
    rank->state = JobRank::RUNNING;
    rank->pid = event.pid();
    rank->start_time = node_time;
    if (++attempt_.started_ranks == attempt_.ranks.size()) attempt_.all_running_time = time;
    TouchRank(event.rank());
  }

  void OnRankExited(const v1::RankExited& event, const google::protobuf::Timestamp& node_time) {
    RankProgress* rank = FindRank(event.rank());
    if (rank == nullptr || attempt_.over() || rank->over()) return;
    rank->state = JobRank::EXITED;
    rank->status = event.status();
    rank->end_time = node_time;
    ++attempt_.over_ranks;
    TouchRank(event.rank());
    if (rank->exited_with_zero()) {
      ++attempt_.zero_ranks;
      return;
    }
    if (attempt_.stop.has_value()) ++attempt_.stopped_ranks;
    v1::Failure failure = RankFailure(event.rank(), node_time);
    *failure.mutable_status() = event.status();
    failure.set_message(
        fmt::format("{} {}", DescribeRank(attempt_, event.rank()), DescribeStatus(event.status())));
    Fail(event.status().has_exec_failure() ? Job::EXEC_FAILED : Job::RANK_FAILED,
         std::move(failure));
  }

  void OnRankLost(const v1::RankLost& event, const google::protobuf::Timestamp& node_time) {
    RankProgress* rank = FindRank(event.rank());
    if (rank == nullptr || attempt_.over() || rank->over()) return;
    LoseRank(event.rank(), OneLine(event.reason()));
    v1::Failure failure = RankFailure(event.rank(), node_time);
    failure.set_message(
        fmt::format("{} is lost: {}", DescribeRank(attempt_, event.rank()), rank->lost_reason));
    Fail(Job::NODE_LOST, std::move(failure));
  }

  void OnRankStalled(const v1::RankStalled& event, const google::protobuf::Timestamp& node_time) {
    RankProgress* rank = FindRank(event.rank());
    if (rank == nullptr || attempt_.over() || rank->state != JobRank::RUNNING) return;
    const std::string what =
        fmt::format("{} has written nothing and hardly used processor time for {}",
                    DescribeRank(attempt_, event.rank()), DescribeDuration(SilenceOf(event)));
    AddWarning(job_,
               event.detail().empty() ? what : fmt::format("{}: {}", what, OneLine(event.detail())),
               kMostRecurringWarnings);
    TouchRank(event.rank());
    const std::string& action = job_.spec->stall().action();
    if (action != "fail" && action != "restart") return;
    v1::Failure failure = RankFailure(event.rank(), node_time);
    failure.set_message(what);
    Fail(Job::STALLED, std::move(failure));
  }

  void OnRankResumed(const v1::RankResumed& event) {
    RankProgress* rank = FindRank(event.rank());
    if (rank == nullptr || attempt_.over() || rank->state != JobRank::RUNNING) return;
    AddWarning(job_,
               fmt::format("{} goes on after {}", DescribeRank(attempt_, event.rank()),
                           DescribeDuration(SilenceOf(event))),
               kMostRecurringWarnings);
    TouchRank(event.rank());
  }

  void OnLogClosed(const v1::RankLogClosed& event) {
    RankProgress* rank = FindRank(event.rank());
    if (rank == nullptr || rank->log_closed) return;
    rank->log_closed = true;
    rank->log_size = event.size();
    rank->written_bytes = event.written_bytes();
    rank->dropped_bytes = event.dropped_bytes();
    TouchRank(event.rank());
  }

  void OnAttemptStopped(const v1::AttemptStopped& event,
                        const google::protobuf::Timestamp& node_time) {
    // A lost node that is back, or one that could not kill everything at first.
    if (node_.settled() && event.unkillable().empty()) return SetGone();
    if (attempt_.over() || node_.settled()) return;
    node_.gone = event.unkillable().empty();
    node_.unkillable.assign(event.unkillable().begin(), event.unkillable().end());
    node_.own_reason = OneLine(event.own_reason());
    if (node_.phase == JobNode::PREPARED) --attempt_.prepared_nodes;
    Settle(JobNode::STOPPED);
    uint32_t without_record = 0;
    for (uint32_t rank : node_.ranks) {
      if (attempt_.ranks[rank].over()) continue;
      ++without_record;
      if (attempt_.ranks[rank].state == JobRank::RUNNING) {
        LoseRank(rank, "its node says that nothing is left and has no exit record of it");
      }
    }
    if (!node_.own_reason.empty()) {
      BlameOwnStop(node_time);
    } else if (without_record > 0) {
      FailNode(Job::NODE_LOST, "stopped without exit records of all its ranks", node_time);
    }
  }

  void OnLost(const internal::AttemptNodeLost& event) {
    if (event.fenced()) SetGone();
    if (attempt_.over() || node_.settled()) return;
    node_.lost_reason = OneLine(event.reason());
    if (node_.phase == JobNode::PREPARED) --attempt_.prepared_nodes;
    Settle(JobNode::LOST);
    uint32_t lost_ranks = 0;
    bool all_zero = true;
    for (uint32_t rank : node_.ranks) {
      all_zero = all_zero && attempt_.ranks[rank].exited_with_zero();
      if (attempt_.ranks[rank].over()) continue;
      ++lost_ranks;
      LoseRank(rank, node_.lost_reason);
    }
    if (lost_ranks > 0) {
      FailNode(Job::NODE_LOST, fmt::format("is lost: {}", node_.lost_reason), {});
    } else if (all_zero) {
      AddWarning(job_, fmt::format("{} was lost after its ranks had ended with 0: {}", node_.host,
                                   node_.lost_reason));
    }
  }

 private:
  RankProgress* FindRank(uint32_t rank) {
    if (rank >= attempt_.ranks.size() || attempt_.ranks[rank].node_index != node_index_) {
      return nullptr;
    }
    return &attempt_.ranks[rank];
  }

  // One event counts once, however much it touches.
  void Touch() {
    if (!touched_) ++job_.revision;
    touched_ = true;
  }
  void TouchNode() {
    Touch();
    attempt_.node_revision[node_index_] = job_.revision;
  }
  void TouchRank(uint32_t rank) {
    Touch();
    attempt_.rank_revision[rank] = job_.revision;
  }

  void SetGone() {
    if (node_.gone) return;
    node_.gone = true;
    TouchNode();
  }

  void Settle(JobNode::Phase phase) {
    node_.phase = phase;
    ++attempt_.settled_nodes;
    TouchNode();
  }

  void LoseRank(uint32_t rank, std::string reason) {
    attempt_.ranks[rank].state = JobRank::LOST;
    attempt_.ranks[rank].lost_reason = std::move(reason);
    ++attempt_.over_ranks;
    if (attempt_.stop.has_value()) ++attempt_.stopped_ranks;
    TouchRank(rank);
  }

  v1::Failure RankFailure(uint32_t rank, const google::protobuf::Timestamp& node_time) {
    v1::Failure failure;
    failure.set_has_rank(true);
    failure.set_rank(rank);
    failure.set_host(node_.host);
    failure.set_pid(attempt_.ranks[rank].pid);
    *failure.mutable_time() = node_time;
    return failure;
  }

  void FailNode(Job::Cause cause, std::string_view what,
                const google::protobuf::Timestamp& node_time) {
    v1::Failure failure;
    failure.set_host(node_.host);
    failure.set_message(fmt::format("{} {}", node_.host, what));
    // A time of 0 stands for "unknown": such a failure yields to any rank's.
    *failure.mutable_time() = node_time;
    Fail(cause, std::move(failure));
  }

  // Takes the failure as the cause if it is the earliest. What our own stop did is never the cause:
  // nothing counts once a stop was ordered or the user asked for one.
  void Fail(Job::Cause cause, v1::Failure failure) {
    if (attempt_.stop.has_value() || job_.cancel.has_value()) return;
    const std::optional<int64_t> time_ns = TimeOf(failure);
    if (attempt_.failure.has_value() && !Earlier(time_ns, attempt_.failure->time_ns)) return;
    attempt_.failure = AttemptFailure{.cause = cause,
                                      .node_index = node_index_,
                                      .time_ns = time_ns,
                                      .failure = std::move(failure)};
  }

  std::optional<int64_t> TimeOf(const v1::Failure& failure) const {
    const int64_t time_ns = ToNanoseconds(failure.time());
    if (time_ns == 0) return std::nullopt;
    return time_ns - clock_offset_ns_;
  }
  static bool Earlier(std::optional<int64_t> a, std::optional<int64_t> b) {
    if (a.has_value() != b.has_value()) return a.has_value();
    return a.has_value() && *a < *b;
  }

  // The node stopped its ranks by itself, for example because its lease ran out. What its ranks
  // then died of (SIGTERM, SIGKILL) was reported first and may have been taken for the cause: it is
  // not.
  void BlameOwnStop(const google::protobuf::Timestamp& node_time) {
    const bool by_us = attempt_.stop.has_value() && !attempt_.failure.has_value();
    if (by_us || (job_.cancel.has_value() && !job_.cancel->late)) return;
    if (attempt_.failure.has_value()) {
      const AttemptFailure& known = *attempt_.failure;
      const int signal = known.failure.status().signal();
      const bool by_own_stop = known.node_index == node_index_ && known.cause == Job::RANK_FAILED &&
                               (signal == SIGTERM || signal == SIGKILL) &&
                               !known.failure.status().oom_killed();
      if (!by_own_stop) return;
    }
    v1::Failure failure;
    failure.set_host(node_.host);
    failure.set_message(fmt::format(
        "{} stopped its ranks by itself: {}{}", node_.host, node_.own_reason,
        attempt_.failure.has_value() ? fmt::format(" ({})", attempt_.failure->failure.message())
                                     : std::string()));
    *failure.mutable_time() = node_time;
    const std::optional<int64_t> time_ns = TimeOf(failure);
    attempt_.failure = AttemptFailure{.cause = Job::NODE_LOST,
                                      .node_index = node_index_,
                                      .time_ns = time_ns,
                                      .failure = std::move(failure)};
  }

  JobRecord& job_;
  AttemptRecord& attempt_;
  NodeProgress& node_;
  const uint32_t node_index_;
  const int64_t clock_offset_ns_;
  bool touched_ = false;
};

AttemptRecord* FindAttempt(JobRecord& job, uint32_t number, uint32_t node_index) {
  if (number == 0 || number > job.attempts.size()) return nullptr;
  AttemptRecord& attempt = job.attempts[number - 1];
  return node_index < attempt.nodes.size() ? &attempt : nullptr;
}

}  // namespace

void FoldReport(JobRecord& job, const internal::AgentReported& report, WallTime time) {
  const v1::Event& event = report.event();
  AttemptRecord* attempt = FindAttempt(job, event.key().attempt(), report.node_index());
  if (attempt == nullptr) return;
  ReportFold fold(job, *attempt, report.node_index(), ToNanoseconds(report.clock_offset()));
  switch (event.body_case()) {
    case v1::Event::kPrepared:
      return fold.OnPrepared(event.prepared());
    case v1::Event::kPrepareFailed:
      return fold.OnPrepareFailed(event.prepare_failed());
    case v1::Event::kRankStarted:
      return fold.OnRankStarted(event.rank_started(), event.event_time(), time);
    case v1::Event::kRankExited:
      return fold.OnRankExited(event.rank_exited(), event.event_time());
    case v1::Event::kRankLost:
      return fold.OnRankLost(event.rank_lost(), event.event_time());
    case v1::Event::kRankLogClosed:
      return fold.OnLogClosed(event.rank_log_closed());
    case v1::Event::kRankStalled:
      return fold.OnRankStalled(event.rank_stalled(), event.event_time());
    case v1::Event::kRankResumed:
      return fold.OnRankResumed(event.rank_resumed());
    case v1::Event::kAttemptStopped:
      return fold.OnAttemptStopped(event.attempt_stopped(), event.event_time());
    case v1::Event::kRendezvousProbed:
      return fold.OnProbed(event.rendezvous_probed());
    case v1::Event::BODY_NOT_SET:
      return;
  }
}

void FoldNodeLost(JobRecord& job, const internal::AttemptNodeLost& event) {
  AttemptRecord* attempt = FindAttempt(job, event.attempt(), event.node_index());
  if (attempt == nullptr) return;
  ReportFold(job, *attempt, event.node_index()).OnLost(event);
}

}  // namespace muster
