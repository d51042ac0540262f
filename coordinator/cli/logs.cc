// `coordinator logs`. Whole output goes through the console; where lines are chosen, counted or
// ordered, they are taken one by one. What is chosen is left to the coordinator; only Muster's own
// notes are made, and chosen, here.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <future>

#include "common/base/annotate.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/console.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/line_printer.h"
#include "coordinator/cli/names.h"
#include "coordinator/cli/place.h"
#include "coordinator/cli/since.h"
#include "coordinator/cli/summary.h"
#include "coordinator/cli/time_order.h"
#include "coordinator/logs/line_pattern.h"

namespace muster {
namespace {

struct LogsFlags {
  std::string job_id;
  std::string server;
  std::string node;
  std::vector<uint32_t> ranks;
  // 0: the newest.
  uint32_t attempt = 0;
  std::optional<LogStream> stream;
  std::string grep;
  // Of `grep`.
  std::optional<LinePattern> pattern;
  std::optional<size_t> tail;
  int64_t since_ns = 0;
  bool follow = false;
  bool raw = false;
  bool by_time = false;
  bool json = false;

  bool line_by_line() const { return pattern || tail || by_time || json; }
};

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void Declare(Flags& flags, LogsFlags& out) {
  flags.Positional("JOB", &out.job_id);
  flags.Switch("follow,f", &out.follow, "go on until the job has ended");
  flags.Value("rank", "LIST", SetRanks(&out.ranks), "only these ranks, as 0-7,9");
  flags.Text("node", "HOST", &out.node, "only the ranks of this node");
  flags.Value(
      "attempt", "N",
      [&out](std::string_view value) -> std::string {
        const auto [end, error] =
            std::from_chars(value.data(), value.data() + value.size(), out.attempt);
        if (error != std::errc() || end != value.data() + value.size() || out.attempt == 0) {
          return fmt::format("expected an attempt, from 1, got '{}'", value);
        }
        return "";
      },
      "of a job that was started again: this attempt; else the newest, with -f all that follow");
  flags.Value(
      "stream", "out|err",
      [&out](std::string_view value) -> std::string {
        if (value == "out" || value == "stdout") {
          out.stream = LogStream::kStdout;
        } else if (value == "err" || value == "stderr") {
          out.stream = LogStream::kStderr;
        } else {
          return fmt::format("expected out or err, got '{}'", value);
        }
        return "";
      },
      "only stdout, or only stderr");
  flags.Value(
      "since", "TIME",
      [&out](std::string_view value) -> std::string {
        const absl::StatusOr<int64_t> since = ParseSince(value, NowNs());
        if (!since.ok()) return std::string(MessageOf(since.status()));
        out.since_ns = *since;
        return "";
      },
      "only what was written since: 10m (ago), 12:00, 2026-01-31T12:00:00; the node's clock "
      "counts");
  flags.Value(
      "tail,n", "N",
      [&out](std::string_view value) -> std::string {
        size_t count = 0;
        const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
        if (error != std::errc() || end != value.data() + value.size()) {
          return fmt::format("expected a number of lines, got '{}'", value);
        }
        out.tail = count;
        return "";
      },
      "begin with the last N lines of every rank");
  flags.Value(
      "grep,g", "RE",
      [&out](std::string_view value) -> std::string {
        absl::StatusOr<LinePattern> pattern = LinePattern::Make(value);
        if (!pattern.ok()) return std::string(MessageOf(pattern.status()));
        out.grep = value;
        out.pattern = *std::move(pattern);
        return "";
      },
      "only lines that match a regular expression (RE2)");
  flags.Switch("raw", &out.raw, "bytes as the ranks wrote them: no labels, nothing held back");
  flags.Value(
      "order", "arrival|time",
      [&out](std::string_view value) -> std::string {
        if (value != "arrival" && value != "time") {
          return fmt::format("expected arrival or time, got '{}'", value);
        }
        out.by_time = value == "time";
        return "";
      },
      "time: merge all ranks by the time at which the nodes read them");
  AddOutputFlag(flags, &out.json);
  AddServerFlag(flags, &out.server);
}

// The ranks that were asked for; all of the job when none were.
absl::StatusOr<std::vector<uint32_t>> ChooseRanks(const v1::Job& job, const LogsFlags& flags) {
  std::vector<uint32_t> chosen;
  bool node_known = flags.node.empty();
  for (const v1::JobNode& node : job.nodes()) {
    if (!flags.node.empty() && node.host() != flags.node && node.node_id() != flags.node) continue;
    node_known = true;
    for (const uint32_t rank : RanksOf(job, node.index())) {
      if (flags.ranks.empty() || std::binary_search(flags.ranks.begin(), flags.ranks.end(), rank)) {
        chosen.push_back(rank);
      }
    }
  }
  if (!node_known) {
    return absl::InvalidArgumentError(
        fmt::format("job {} has no node {}", job.job_id(), flags.node));
  }
  // It waits for its nodes: which ranks there will be is not known yet.
  if (job.world_size() == 0) return flags.ranks;
  for (const uint32_t rank : flags.ranks) {
    if (rank >= job.world_size()) {
      return absl::InvalidArgumentError(fmt::format("job {} has no rank {}, only 0 to {}",
                                                    job.job_id(), rank, job.world_size() - 1));
    }
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

LogFollower::Options ReadingOptions(const v1::Job& job, const std::vector<uint32_t>& ranks,
                                    const LogsFlags& flags, const Place& place) {
  LogFollower::Options logs;
  logs.request.set_job_id(flags.job_id);
  logs.request.set_follow(flags.follow);
  logs.request.set_attempt(flags.attempt);
  if (ranks.size() < job.world_size())
    logs.request.mutable_ranks()->Add(ranks.begin(), ranks.end());
  if (flags.stream) {
    logs.request.add_streams(*flags.stream == LogStream::kStdout ? v1::ReadLogsRequest::STDOUT
                                                                 : v1::ReadLogsRequest::STDERR);
  }
  logs.request.set_since_ns(flags.since_ns);
  logs.request.set_grep(flags.grep);
  // Also where nothing else asks for them: lines keep their beginnings and times.
  logs.request.set_whole_lines(flags.line_by_line() &&
                               (flags.stream || flags.since_ns != 0 || flags.tail));
  logs.reconnect = flags.follow ? place.reconnect : std::chrono::milliseconds(0);
  return logs;
}

// Nobody shall take what a filter hides for output that is not there.
void WarnOfLosses(uint64_t places, std::string_view without, Reporter& reporter) {
  if (places == 0) return;
  reporter.Say(fmt::format("warning: output is missing at {} {}; logs without {} shows where",
                           places, places == 1 ? "place" : "places", without));
}

// Everything, as fast as it comes.
int PrintAll(JobSource& source, LogFollower::Options logs, const v1::Job& job,
             const LogsFlags& flags, Reporter& reporter) {
  Console::Options options;
  options.logs = std::move(logs);
  options.view.terminal = ::isatty(STDOUT_FILENO) == 1 && !flags.raw;
  options.view.colour = WantsColour(STDOUT_FILENO);
  options.view.raw = flags.raw;
  options.view.since_ns = flags.since_ns;
  options.view.host_of = [&job](uint32_t rank) { return HostOf(job, rank); };
  std::promise<void> done;
  Console::Events events;
  events.on_done = [&done] { done.set_value(); };
  Console console(source, std::move(options), std::move(events));
  done.get_future().wait();
  const Console::Result result = console.result();
  if (result.closed_error != 0) {
    return ReportError(ErrnoStatus(result.closed_error, "cannot write to stdout"), reporter);
  }
  if (!result.read_status.ok()) return ReportError(result.read_status, reporter);
  // Among lines it is said where it is; bytes must stay as the ranks wrote them.
  WarnOfLosses(result.losses, "--raw", reporter);
  if (flags.raw && result.missing_bytes > 0) {
    reporter.Say(fmt::format("warning: {} of output are not stored by the coordinator",
                             FormatBytes(result.missing_bytes)));
  }
  return 0;
}

// Notes are lines on stderr; the source does not know them.
bool ShowsNote(const LogLine& note, const LogsFlags& flags) {
  if (flags.stream && *flags.stream != note.stream) return false;
  return !flags.pattern || flags.pattern->Matches(note.text);
}

// Reads until the source says that this is all; `follower` runs on a thread of its own. With
// `positions`, reading goes on there later, and lines that have not ended are left for then.
absl::Status ReadAll(JobSource& source, LogFollower::Options logs, LineSplitter& splitter,
                     LinePrinter& printer, LogFollower::Positions* positions) {
  std::promise<absl::Status> done;
  LogFollower follower(
      source, std::move(logs),
      [&](v1::ReadLogsResponse piece) {
        if (positions != nullptr) {
          if (piece.end()) piece.clear_data();
          // Told when reading goes on.
          piece.clear_missing_bytes();
          (*positions)[piece.rank()] = {piece.attempt(),
                                        piece.offset() + piece.data().size() + piece.zeros()};
        }
        splitter.Take(piece);
        return printer.Flush();
      },
      [&done](const absl::Status& status) { done.set_value(status); });
  return done.get_future().get();
}

int PrintLines(JobSource& source, LogFollower::Options logs, const v1::Job& job,
               const std::vector<uint32_t>& ranks, const LogsFlags& flags, Reporter& reporter) {
  LinePrinter printer(job, flags.json, WantsColour(STDOUT_FILENO));
  std::optional<LineTail> tail;
  if (flags.tail) tail.emplace(*flags.tail);
  uint64_t losses = 0;
  const auto take = [&](LogLine line) {
    if (line.is_note) {
      if (line.time_ns < flags.since_ns) return;
      if (!ShowsNote(line, flags)) {
        ++losses;
        return;
      }
    }
    if (tail) {
      tail->Add(std::move(line));
    } else {
      printer.Print(line);
    }
  };
  const ControlSequences controls = ::isatty(STDOUT_FILENO) != 1 ? ControlSequences::kKeep
                                    : WantsColour(STDOUT_FILENO) ? ControlSequences::kColourOnly
                                                                 : ControlSequences::kNone;
  absl::Status status;
  if (flags.by_time && !tail) {
    status = ReadInTimeOrder(source, logs, ranks, controls, take, [&printer] { printer.Flush(); });
  } else {
    LineSplitter splitter(controls, take);
    if (tail) {
      // What is there first, then what comes.
      LogFollower::Options past = logs;
      past.request.set_follow(false);
      past.request.set_tail_lines(*flags.tail);
      status =
          ReadAll(source, std::move(past), splitter, printer, flags.follow ? &logs.from : nullptr);
      if (!flags.follow) splitter.Finish();
      for (const LogLine& line : tail->Take(flags.by_time)) printer.Print(line);
      printer.Flush();
      tail.reset();
    }
    if (status.ok() && (flags.follow || !flags.tail)) {
      status = ReadAll(source, std::move(logs), splitter, printer, nullptr);
    }
    splitter.Finish();
  }
  printer.Flush();
  WarnOfLosses(losses,
               !flags.pattern  ? "--stream"
               : !flags.stream ? "--grep"
                               : "--grep and --stream",
               reporter);
  if (!status.ok()) return ReportError(status, reporter);
  return 0;
}

}  // namespace

int RunLogs(Arguments arguments, Reporter& reporter) {
  LogsFlags options;
  Flags flags("logs JOB [flags]",
              "Prints what the ranks of a job wrote, past and (with -f) to come, from anywhere.");
  Declare(flags, options);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  if (options.raw && options.line_by_line()) {
    reporter.Say("--raw gives bytes, not lines: it goes with --rank, --node, --stream and -f only");
    return kExitUsage;
  }
  absl::StatusOr<Place> place = FindJobPlace(options.server, options.job_id);
  if (!place.ok()) return ReportError(place.status(), reporter);
  if (place->archive != nullptr && !place->archive->missing_output().empty()) {
    reporter.Say("warning: " + place->archive->missing_output());
  }
  const absl::StatusOr<v1::Job> job = place->client->GetJob(options.job_id);
  if (!job.ok()) return ReportError(job.status(), reporter);
  const bool may_come = options.follow && !IsTerminal(*job);
  if (options.attempt > job->attempt() && !may_come) {
    return ReportError(
        absl::InvalidArgumentError(
            job->attempt() == 0 ? fmt::format("job {} has not started", job->job_id())
                                : fmt::format("job {} has no attempt {}, only 1 to {}",
                                              job->job_id(), options.attempt, job->attempt())),
        reporter);
  }
  const absl::StatusOr<std::vector<uint32_t>> ranks = ChooseRanks(*job, options);
  if (!ranks.ok()) return ReportError(ranks.status(), reporter);
  if (ranks->empty() && job->world_size() > 0) return 0;
  LogFollower::Options logs = ReadingOptions(*job, *ranks, options, *place);
  if (!options.line_by_line()) {
    return PrintAll(*place->client, std::move(logs), *job, options, reporter);
  }
  return PrintLines(*place->client, std::move(logs), *job, *ranks, options, reporter);
}

}  // namespace muster
