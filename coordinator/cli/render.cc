#include "coordinator/cli/render.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>

#include "common/base/signal_names.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/job_json.h"
#include "coordinator/cli/names.h"
#include "coordinator/cli/summary.h"

namespace muster {
namespace {

std::string LocalTime(const google::protobuf::Timestamp& time) {
  const std::time_t seconds = time.seconds();
  std::tm local = {};
  if (::localtime_r(&seconds, &local) == nullptr) return "?";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

}  // namespace

std::string Ago(const google::protobuf::Timestamp& time, int64_t now) {
  if (time.seconds() == 0) return "-";
  const int64_t seconds = std::max<int64_t>(0, now - time.seconds());
  if (seconds < 60) return fmt::format("{} s ago", seconds);
  return FormatSeconds(static_cast<double>(seconds)) + " ago";
}

namespace {

std::string RanTime(const v1::Job& job, int64_t now) {
  if (job.start_time().seconds() == 0) return "-";
  // Nobody saw the end.
  if (IsTerminal(job) && job.end_time().seconds() == 0) return "-";
  google::protobuf::Timestamp end = job.end_time();
  if (end.seconds() == 0) end.set_seconds(now);
  return FormatSeconds(SecondsBetween(job.start_time(), end).value_or(0));
}

std::string StatusCell(const v1::JobRank& rank) {
  switch (rank.state()) {
    case v1::JobRank::EXITED:
      switch (rank.status().outcome_case()) {
        case v1::ExitStatus::kExitCode:
          return std::to_string(rank.status().exit_code());
        case v1::ExitStatus::kSignal:
          return SignalName(rank.status().signal()) +
                 (rank.status().oom_killed() ? " (out of memory)" : "");
        case v1::ExitStatus::kExecFailure:
          return "not executed";
        default:
          return "?";
      }
    case v1::JobRank::LOST:
      return rank.lost_reason().empty() ? "?" : rank.lost_reason();
    default:
      return "-";
  }
}

// Clocks that agree less than this deserve a word.
constexpr double kClockOffsetToldSeconds = 1.0;

std::string DescribeClockOffset(const v1::Node& node) {
  const double offset = SecondsOf(node.clock_offset());
  if (std::abs(offset) < kClockOffsetToldSeconds) return "";
  return fmt::format("its clock is {} {} that of the coordinator", FormatSeconds(std::abs(offset)),
                     offset > 0 ? "before" : "behind");
}

std::string NodesOf(const v1::Job& job) {
  std::vector<std::vector<std::string>> rows = {{"NODE", "PHASE", "RANKS", "NOTE"}};
  for (const v1::JobNode& node : job.nodes()) {
    const std::vector<uint32_t> ranks = RanksOf(job, node.index());
    std::string note;
    if (!node.node_id().empty() && node.node_id() != node.host()) {
      note = "served by " + node.node_id();
    }
    if (node.suspect()) note += note.empty() ? "out of contact" : ", out of contact";
    rows.push_back(
        {node.host(), PhaseWord(node.phase()), ranks.empty() ? "-" : FormatRanks(ranks), note});
  }
  return RenderTable(rows);
}

bool HasOutput(const v1::JobRank& rank) {
  return rank.written_bytes() > 0 || rank.stored_log_bytes() > 0;
}

std::string RanksTable(const v1::Job& job, size_t max_ranks) {
  const bool all = static_cast<size_t>(job.ranks_size()) <= max_ranks;
  std::map<std::string, size_t> counts;
  const bool output = std::any_of(job.ranks().begin(), job.ranks().end(), HasOutput);
  std::vector<std::vector<std::string>> rows = {{"RANK", "NODE", "PID", "STATE", "STATUS"}};
  if (output) rows[0].insert(rows[0].end(), {"WRITTEN", "DROPPED", "STORED"});
  for (const v1::JobRank& rank : job.ranks()) {
    const std::string status = StatusCell(rank);
    ++counts[status == "-" ? RankWord(rank.state())
                           : fmt::format("{} {}", RankWord(rank.state()), status)];
    // Of many, those that neither ended well nor were stopped.
    const bool odd = rank.state() == v1::JobRank::LOST ||
                     (rank.state() == v1::JobRank::EXITED && status != "0" && status != "SIGTERM");
    if (!all && !(odd && rows.size() <= max_ranks)) continue;
    rows.push_back({std::to_string(rank.rank()), HostOf(job, rank.rank()),
                    rank.pid() > 0 ? std::to_string(rank.pid()) : "-", RankWord(rank.state()),
                    status});
    if (!output) continue;
    rows.back().insert(rows.back().end(),
                       {rank.log_closed() ? FormatBytes(rank.written_bytes()) : "-",
                        rank.log_closed() ? FormatBytes(rank.dropped_bytes()) : "-",
                        FormatBytes(rank.stored_log_bytes())});
  }
  std::string text;
  if (!all) {
    // The most frequent first.
    std::vector<std::pair<std::string, size_t>> sorted(counts.begin(), counts.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    for (const auto& [what, count] : sorted) {
      text += fmt::format("{} {}\n", Count(count, "rank"), what);
    }
  }
  return rows.size() > 1 ? text + (text.empty() ? "" : "\n") + RenderTable(rows) : text;
}

}  // namespace

std::string RenderTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    if (row.size() > widths.size()) widths.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string RenderJob(const v1::Job& job, int64_t now, size_t max_ranks) {
  std::vector<std::vector<std::string>> head = {
      {"job",
       job.name().empty() ? job.job_id() : fmt::format("{} ({})", job.job_id(), job.name())}};
  std::string state = StateWord(job.state());
  if (IsTerminal(job)) state += fmt::format(", exit status {}", ExitStatusOf(job));
  head.push_back({"state", state});
  if (job.cause() > v1::Job::NONE) head.push_back({"cause", CauseWord(job.cause())});
  if (!job.reason().empty()) head.push_back({"reason", job.reason()});
  head.push_back({"created", fmt::format("{} ({})", LocalTime(job.create_time()),
                                         Ago(job.create_time(), now))});
  if (const auto latency = SecondsBetween(job.create_time(), job.start_time())) {
    head.push_back({"started in", FormatSeconds(*latency)});
    if (const std::string ran = RanTime(job, now); ran != "-") {
      head.push_back({IsTerminal(job) ? "ran" : "running for", ran});
    }
  }
  if (job.attempt() > 1) head.push_back({"attempt", std::to_string(job.attempt())});
  head.push_back({"ranks", fmt::format("{} on {}", job.world_size(),
                                       Count(static_cast<uint64_t>(job.nodes_size()), "node"))});
  if (!job.rendezvous().address().empty()) {
    head.push_back({"rendezvous", fmt::format("{} port {}", job.rendezvous().address(),
                                              job.rendezvous().port())});
  }
  std::string text = RenderTable(head);
  if (!IsTerminal(job)) {
    if (const std::string waiting = WaitingFor(job, 0); !waiting.empty()) text += waiting + "\n";
  }
  for (const std::string& warning : job.warnings()) text += "warning: " + warning + "\n";
  if (job.state() == v1::Job::FAILED || job.state() == v1::Job::CANCELLED) {
    text += "\n";
    for (const std::string& line : FailureReport(job, EndContext())) text += line + "\n";
  }
  text += "\n" + NodesOf(job);
  if (job.ranks_size() > 0) text += "\n" + RanksTable(job, max_ranks);
  return text;
}

std::string RenderJobs(std::span<const v1::Job> jobs, int64_t now) {
  std::vector<std::vector<std::string>> rows = {
      {"JOB", "NAME", "STATE", "STATUS", "RANKS", "CREATED", "RAN"}};
  for (const v1::Job& job : jobs) {
    rows.push_back({job.job_id(), job.name().empty() ? "-" : job.name(), StateWord(job.state()),
                    IsTerminal(job) ? std::to_string(ExitStatusInList(job)) : "-",
                    std::to_string(job.world_size()), Ago(job.create_time(), now),
                    RanTime(job, now)});
  }
  return RenderTable(rows);
}

std::string RenderNodes(const v1::ListNodesResponse& nodes, int64_t now) {
  std::vector<std::vector<std::string>> rows = {
      {"NODE", "STATE", "SLOTS", "CPUS", "MEMORY", "ADDRESS", "SEEN", "JOBS"}};
  for (const v1::Node& node : nodes.nodes()) {
    const v1::NodeFacts& facts = node.facts();
    const std::vector<std::string> jobs(node.job_ids().begin(), node.job_ids().end());
    rows.push_back({node.node_id(), NodeWord(node.state()), std::to_string(facts.slots_size()),
                    std::to_string(facts.cpu_count()), FormatBytes(facts.memory_bytes()),
                    facts.addresses_size() > 0 ? facts.addresses(0) : "-",
                    Ago(node.last_seen(), now), jobs.empty() ? "-" : ListNames(jobs, 3)});
  }
  std::string notes;
  for (const v1::Node& node : nodes.nodes()) {
    if (!node.reason().empty()) notes += fmt::format("{}: {}\n", node.node_id(), node.reason());
    if (const std::string skew = DescribeClockOffset(node); !skew.empty()) {
      notes += fmt::format("{}: {}\n", node.node_id(), skew);
    }
    for (const std::string& alarm : node.alarms()) {
      notes += fmt::format("ALARM {}: {}\n", node.node_id(), alarm);
    }
  }
  return RenderTable(rows) + (notes.empty() ? "" : "\n" + notes);
}

std::vector<std::string> DescribeChanges(const v1::Job& before, const v1::Job& after) {
  std::vector<std::string> lines;
  if (after.state() != before.state() || after.reason() != before.reason()) {
    lines.push_back(after.reason().empty()
                        ? StateWord(after.state())
                        : fmt::format("{}: {}", StateWord(after.state()), after.reason()));
  }
  for (int i = 0; i < after.nodes_size(); ++i) {
    const v1::JobNode& node = after.nodes(i);
    const v1::JobNode* old = i < before.nodes_size() ? &before.nodes(i) : nullptr;
    if (old == nullptr || old->phase() != node.phase()) {
      lines.push_back(fmt::format("node {} {}", node.host(), PhaseWord(node.phase())));
    }
    if (node.suspect() && (old == nullptr || !old->suspect())) {
      lines.push_back(fmt::format("node {} is out of contact", node.host()));
    }
    for (int p = old == nullptr ? 0 : old->problems_size(); p < node.problems_size(); ++p) {
      lines.push_back(fmt::format("node {} {}: {}", node.host(), node.problems(p).check(),
                                  node.problems(p).message()));
    }
  }
  for (int i = 0; i < after.ranks_size(); ++i) {
    const v1::JobRank& rank = after.ranks(i);
    if (i < before.ranks_size() && before.ranks(i).state() == rank.state()) continue;
    if (rank.state() == v1::JobRank::WAITING) continue;
    std::string line = fmt::format("rank {} on {}", rank.rank(), HostOf(after, rank.rank()));
    if (rank.pid() > 0) line += fmt::format(" (pid {})", rank.pid());
    switch (rank.state()) {
      case v1::JobRank::RUNNING:
        line += " runs";
        break;
      case v1::JobRank::EXITED:
        line += " " + DescribeEnd(rank.status());
        break;
      default:
        line += rank.lost_reason().empty() ? " is lost" : " is lost: " + rank.lost_reason();
        break;
    }
    lines.push_back(std::move(line));
  }
  for (const std::string& warning : NewWarnings(before, after)) lines.push_back(warning);
  return lines;
}

}  // namespace muster
