#include "coordinator/cli/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include "common/base/signal_names.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/names.h"

namespace muster {
namespace {

// Hint for a rank that a signal ended; empty when there is nothing useful to say.
std::string SignalHint(const v1::Failure& failure, const EndContext& context) {
  const v1::ExitStatus& status = failure.status();
  if (status.outcome_case() != v1::ExitStatus::kSignal) return "";
  switch (status.signal()) {
    case SIGKILL:
      if (status.oom_killed()) {
        return fmt::format(
            "hint: out of memory: the kernel's out-of-memory killer ended it (its cgroup counted "
            "an "
            "oom_kill); it needs more memory than {} gave it",
            failure.host());
      }
      return fmt::format(
          "hint: Muster did not send it; most often it is the out-of-memory killer: look for "
          "\"Out of memory\" in the kernel log of {} (dmesg)",
          failure.host());
    case SIGBUS: {
      std::string hint =
          "hint: most often a full /dev/shm, which data loader workers use to pass batches";
      if (context.local && context.shm_free_bytes && context.shm_total_bytes) {
        hint += fmt::format(": {} of {} free here now", FormatBytes(*context.shm_free_bytes),
                            FormatBytes(*context.shm_total_bytes));
      } else {
        hint += fmt::format(": see df /dev/shm on {}", failure.host());
      }
      return hint + "; in containers raise --shm-size, or use fewer workers";
    }
    case SIGSEGV:
    case SIGABRT:
    case SIGILL:
    case SIGFPE:
      if (status.core_dumped()) return "hint: the kernel wrote a core dump";
      return "hint: a crash in native code; PYTHONFAULTHANDLER=1 prints where, ulimit -c unlimited "
             "keeps a core dump";
    case SIGXCPU:
    case SIGXFSZ:
      return fmt::format("hint: a resource limit (ulimit) of {} was reached", failure.host());
    default:
      return "";
  }
}

void AddLogPlace(const v1::Job& job, const EndContext& context, std::vector<std::string>* lines) {
  const v1::Failure& failure = job.first_failure();
  if (!context.log_folder.empty()) {
    if (failure.has_rank()) {
      lines->push_back(fmt::format("full log: {}/rank_{}.log", context.log_folder, failure.rank()));
    } else {
      lines->push_back(fmt::format("logs: {}", context.log_folder));
    }
  } else if (!context.log_command.empty()) {
    lines->push_back(fmt::format(
        "full log: {}{}", context.log_command,
        failure.has_rank() ? fmt::format(" --rank {}", failure.rank()) : std::string()));
  }
}

// Ranks whose fate nobody knows, by host.
void AddLostRanks(const v1::Job& job, std::vector<std::string>* lines) {
  for (const v1::JobNode& node : job.nodes()) {
    std::vector<uint32_t> lost;
    std::set<std::string> reasons;
    for (const v1::JobRank& rank : job.ranks()) {
      if (rank.node_index() != node.index() || rank.state() != v1::JobRank::LOST) continue;
      lost.push_back(rank.rank());
      if (!rank.lost_reason().empty()) reasons.insert(rank.lost_reason());
    }
    if (lost.empty()) continue;
    std::sort(lost.begin(), lost.end());
    std::string line = fmt::format("{} {} on {}: nobody can tell how {} ended",
                                   lost.size() == 1 ? "rank" : "ranks", FormatRanks(lost),
                                   node.host(), lost.size() == 1 ? "it" : "they");
    if (reasons.size() == 1) line += fmt::format(" ({})", *reasons.begin());
    lines->push_back(std::move(line));
  }
}

std::vector<std::string> HostsIn(const v1::Job& job, v1::JobNode::Phase phase) {
  std::vector<std::string> hosts;
  for (const v1::JobNode& node : job.nodes()) {
    if (node.phase() == phase) hosts.push_back(node.host());
  }
  return hosts;
}

// Hosts that no node is known to serve.
std::vector<std::string> MissingHosts(const v1::Job& job) {
  std::vector<std::string> hosts;
  for (const v1::JobNode& node : job.nodes()) {
    if (node.phase() == v1::JobNode::WAITING && node.node_id().empty()) {
      hosts.push_back(node.host());
    }
  }
  return hosts;
}

std::string RankHeadline(const v1::Failure& failure) {
  std::string line = fmt::format("rank {} on {}", failure.rank(), failure.host());
  if (failure.pid() > 0) line += fmt::format(" (pid {})", failure.pid());
  if (failure.status().outcome_case() == v1::ExitStatus::OUTCOME_NOT_SET) {
    // Usually a sentence about the rank already.
    if (failure.message().starts_with("rank ")) return failure.message();
    return fmt::format("{} was lost: {}", line, failure.message());
  }
  return fmt::format("{} {}", line, DescribeEnd(failure.status()));
}

std::string Headline(const v1::Job& job) {
  const v1::Failure& failure = job.first_failure();
  // While the ranks are being stopped the failure is known and the cause may not be set yet.
  if (!IsTerminal(job) && failure.has_rank()) return RankHeadline(failure);
  switch (job.cause()) {
    case v1::Job::RANK_FAILED:
    case v1::Job::EXEC_FAILED:
      if (failure.has_rank()) return RankHeadline(failure);
      break;
    case v1::Job::NODE_LOST: {
      const std::string host =
          failure.host().empty() ? ListNames(HostsIn(job, v1::JobNode::LOST)) : failure.host();
      const std::string& why = failure.message().empty() ? job.reason() : failure.message();
      if (failure.has_rank()) return RankHeadline(failure);
      if (host.empty()) return why;
      return fmt::format("lost node {}: {}", host, why);
    }
    case v1::Job::NODE_MISSING: {
      if (!job.reason().empty()) return fmt::format("not started: {}", job.reason());
      const std::vector<std::string> missing = MissingHosts(job);
      return fmt::format("not started: no agent serves {} ({} of {} missing)", ListNames(missing),
                         missing.size(), Count(static_cast<uint64_t>(job.nodes_size()), "host"));
    }
    case v1::Job::PREPARE_FAILED: {
      const size_t failed = HostsIn(job, v1::JobNode::PREPARE_FAILED).size();
      if (failed == 0) break;
      return fmt::format("not started: {} of {} cannot run the job", failed,
                         Count(job.nodes_size(), "node"));
    }
    case v1::Job::USER:
      if (job.reason().starts_with("cancelled")) return job.reason();
      return fmt::format("cancelled{}{}", job.reason().empty() ? "" : ": ", job.reason());
    case v1::Job::TIME_LIMIT:
      return job.reason().empty() ? "the time limit ran out" : job.reason();
    case v1::Job::INTERNAL:
      return fmt::format("a mistake in Muster, please report it: {}", job.reason());
    default:
      break;
  }
  if (!failure.message().empty()) return failure.message();
  return job.reason().empty() ? "failed" : job.reason();
}

// Cards that were not ready when their ranks ended. Of any node: the rank that fails first is often
// one that waits for the rank whose card is gone.
void AddCardProblems(const v1::Job& job, std::vector<std::string>* lines) {
  constexpr size_t kMostTold = 8;
  size_t found = 0;
  for (const v1::JobNode& node : job.nodes()) {
    for (const v1::JobRank& rank : job.ranks()) {
      const std::string& problem = rank.status().card_problem();
      if (rank.node_index() != node.index() || problem.empty() || ++found > kMostTold) continue;
      lines->push_back(
          fmt::format("hint: [{}] card of rank {}: {}", node.host(), rank.rank(), problem));
    }
  }
  if (found > kMostTold) {
    lines->push_back(fmt::format("hint: and {} more cards", found - kMostTold));
  }
}

void AddHeadline(const v1::Job& job, const EndContext& context, std::vector<std::string>* lines) {
  lines->push_back(Headline(job));
  std::string hint = SignalHint(job.first_failure(), context);
  if (!hint.empty()) lines->push_back(std::move(hint));
  AddCardProblems(job, lines);
}

void AddLastLines(const EndContext& context, std::vector<std::string>* lines) {
  if (context.last_lines.empty()) return;
  lines->push_back(fmt::format("its last {}:", context.last_lines.size() == 1
                                                   ? "line"
                                                   : Count(context.last_lines.size(), "line")));
  for (const std::string& line : context.last_lines) lines->push_back("  | " + line);
}

}  // namespace

std::string FormatSeconds(double seconds) {
  if (seconds < 9.995) return fmt::format("{:.2f} s", std::max(seconds, 0.0));
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const uint64_t whole = static_cast<uint64_t>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {} h", whole / 86400, whole % 86400 / 3600);
}

double SecondsOf(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + duration.nanos() * 1e-9;
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1000) return Count(bytes, "byte");
  double value = static_cast<double>(bytes);
  for (const char* unit : {"kB", "MB", "GB"}) {
    value /= 1000;
    if (value < 999.95) return fmt::format("{:.1f} {}", value, unit);
  }
  return fmt::format("{:.1f} TB", value / 1000);
}

std::optional<double> SecondsBetween(const google::protobuf::Timestamp& from,
                                     const google::protobuf::Timestamp& to) {
  if (from.seconds() == 0 || to.seconds() == 0) return std::nullopt;
  // A clock that was set back between the two makes no time run backwards.
  return std::max(
      0.0, static_cast<double>(to.seconds() - from.seconds()) + (to.nanos() - from.nanos()) * 1e-9);
}

std::string DescribeEnd(const v1::ExitStatus& status) {
  switch (status.outcome_case()) {
    case v1::ExitStatus::kExitCode:
      return fmt::format("exited with code {}", status.exit_code());
    case v1::ExitStatus::kSignal:
      return fmt::format("was killed by {} (signal {}){}", SignalName(status.signal()),
                         status.signal(), status.core_dumped() ? ", core dumped" : "");
    case v1::ExitStatus::kExecFailure: {
      const v1::ExecFailure& failure = status.exec_failure();
      if (!failure.message().empty()) {
        return fmt::format("could not be started: {}", failure.message());
      }
      return fmt::format("could not be started: {} failed with errno {}", failure.step(),
                         failure.error_number());
    }
    default:
      return "ended in an unknown way";
  }
}

std::string WaitingFor(const v1::Job& job, size_t limit) {
  if (job.state() == v1::Job::PENDING) {
    if (!job.reason().empty()) return job.reason();
    const std::vector<std::string> missing = MissingHosts(job);
    if (missing.empty()) return "waiting to be started";
    return fmt::format("waiting for {} of {}: {}", missing.size(),
                       Count(static_cast<uint64_t>(job.nodes_size()), "host"),
                       ListNames(missing, limit));
  }
  if (job.state() == v1::Job::PREPARING) {
    std::vector<std::string> busy = HostsIn(job, v1::JobNode::PREPARING);
    for (std::string& host : HostsIn(job, v1::JobNode::WAITING)) busy.push_back(std::move(host));
    if (busy.empty()) return "";
    return fmt::format("waiting for {} to get ready ({} of {} ready)", ListNames(busy, limit),
                       HostsIn(job, v1::JobNode::PREPARED).size(), Count(job.nodes_size(), "node"));
  }
  if (job.state() == v1::Job::RUNNING) {
    size_t waiting = 0;
    for (const v1::JobRank& rank : job.ranks()) waiting += rank.state() == v1::JobRank::WAITING;
    if (waiting == 0) return "";
    return fmt::format("waiting for {} of {} to start", waiting, Count(job.ranks_size(), "rank"));
  }
  return "";
}

std::vector<std::string> FoldProblems(const v1::Job& job) {
  // In the order in which the hostfile names the first node of each.
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> hosts;
  for (const v1::JobNode& node : job.nodes()) {
    for (const v1::Problem& problem : node.problems()) {
      std::string text = problem.check().empty()
                             ? problem.message()
                             : fmt::format("{}: {}", problem.check(), problem.message());
      std::vector<std::string>& names = hosts[text];
      if (names.empty()) order.push_back(text);
      if (names.empty() || names.back() != node.host()) names.push_back(node.host());
    }
  }
  std::vector<std::string> lines;
  for (const std::string& text : order) {
    lines.push_back(fmt::format("[{}] {}", fmt::join(hosts[text], ","), text));
  }
  return lines;
}

std::vector<std::string> FailureNotice(const v1::Job& job, const EndContext& context) {
  std::vector<std::string> lines;
  AddHeadline(job, context, &lines);
  AddLastLines(context, &lines);
  return lines;
}

std::vector<std::string> FailureReport(const v1::Job& job, const EndContext& context) {
  std::vector<std::string> lines;
  AddHeadline(job, context, &lines);
  for (std::string& problem : FoldProblems(job)) lines.push_back(std::move(problem));
  AddLostRanks(job, &lines);
  AddLastLines(context, &lines);
  if (job.start_time().seconds() != 0) AddLogPlace(job, context, &lines);
  // A rank that had stalled was stopped itself.
  const bool stalled = job.cause() == v1::Job::STALLED && job.first_failure().has_rank();
  const uint32_t stopped = job.stopped_ranks() - (stalled && job.stopped_ranks() > 0 ? 1 : 0);
  if (stopped > 0) {
    const std::string_view what = job.first_failure().has_rank() ? "other rank" : "rank";
    lines.push_back(fmt::format("{} {} stopped because of it", Count(stopped, what),
                                stopped == 1 ? "was" : "were"));
  }
  if (context.lost_bytes > 0) {
    lines.push_back(fmt::format("{} of output were lost", FormatBytes(context.lost_bytes)));
  }
  std::string last = fmt::format("job {} {}", job.job_id(),
                                 job.state() == v1::Job::CANCELLED ? "was cancelled" : "failed");
  if (const auto ran = SecondsBetween(job.start_time(), job.end_time())) {
    last += fmt::format(" after {}", FormatSeconds(*ran));
  }
  lines.push_back(fmt::format("{}, exit status {}", last, ExitStatusOf(job)));
  return lines;
}

std::vector<std::string> SuccessSummary(const v1::Job& job, const EndContext& context) {
  std::vector<std::string> lines;
  std::string first =
      fmt::format("job {} succeeded: {} on {}, every rank ended with 0", job.job_id(),
                  Count(job.ranks_size(), "rank"), Count(job.nodes_size(), "node"));
  if (const auto latency = SecondsBetween(job.create_time(), job.start_time())) {
    first += fmt::format(", started in {}", FormatSeconds(*latency));
  }
  if (const auto ran = SecondsBetween(job.start_time(), job.end_time())) {
    first += fmt::format(", ran {}", FormatSeconds(*ran));
  }
  lines.push_back(std::move(first));
  std::string second;
  if (!context.log_folder.empty()) {
    second = fmt::format("logs: {}/rank_N.log", context.log_folder);
  } else if (!context.log_command.empty()) {
    second = fmt::format("logs: {}", context.log_command);
  }
  if (!second.empty()) second += ", ";
  second += context.lost_bytes == 0 ? "0 bytes lost"
                                    : fmt::format("{} LOST", FormatBytes(context.lost_bytes));
  lines.push_back(std::move(second));
  return lines;
}

std::vector<std::string> NewWarnings(const v1::Job& before, const v1::Job& after) {
  const std::set<std::string> known(before.warnings().begin(), before.warnings().end());
  std::vector<std::string> fresh;
  for (const std::string& warning : after.warnings()) {
    if (!known.contains(warning)) fresh.push_back("warning: " + warning);
  }
  return fresh;
}

}  // namespace muster
