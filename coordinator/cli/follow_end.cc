// How following a job ends: the rest of its output, and what the user is told about it.
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "common/base/annotate.h"
#include "common/config/duration.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/follower.h"
#include "coordinator/cli/last_lines.h"
#include "coordinator/cli/names.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

constexpr size_t kLastLines = 20;

}  // namespace

void Follower::SayEarlyFailure(Time now) {
  if (!failure_seen_ || failure_said_ || now < *failure_seen_ + kEarlyFailure) return;
  failure_said_ = true;
  const v1::Job& job = view_.job();
  EndContext context;
  const v1::Failure& failure = job.first_failure();
  if (failure.has_rank()) {
    context.last_lines = ReadLastLines(client_, job.job_id(), failure.rank(), kLastLines);
  }
  for (const std::string& line : FailureNotice(job, context)) reporter_.Say(line);
  size_t running = 0;
  for (const v1::JobRank& rank : job.ranks()) running += rank.state() == v1::JobRank::RUNNING;
  if (running > 0) {
    reporter_.Say(fmt::format("stopping {}, which {} {} to end by {}", Count(running, "other rank"),
                              running == 1 ? "has" : "have", FormatDuration(options_.grace),
                              running == 1 ? "itself" : "themselves"));
  }
}

// The console has its own patience, and then counts what is left. The files end with their stream,
// which the coordinator ends when nothing more can come.
void Follower::DrainOutput() {
  reporter_.Progress("");
  draining_ = true;
  if (console_) console_->EndOfJob();
  uint64_t progress = 0;
  std::optional<Time> gave_up;
  Time moved = std::chrono::steady_clock::now();
  while (!leave_ && (!console_done_ || !files_done_)) {
    Handle(mailbox_.Take(milliseconds(500)));
    reporter_.Retry();
    const Time now = std::chrono::steady_clock::now();
    const uint64_t latest = files_progress_ + (console_ ? console_->progress() : 0);
    if (latest != progress) moved = now;
    progress = latest;
    if (now >= moved + options_.patience + milliseconds(2'000)) break;
    if (!gave_up && console_ && console_->result().gave_up) gave_up = now;
    if (gave_up && files_done_ && now >= *gave_up + options_.patience) break;
  }
  if (console_) {
    const Console::Result shown = console_->result();
    if (shown.gave_up) {
      reporter_.Say(fmt::format("stdout was not read for {}: {}{} ({}) were not shown",
                                FormatDuration(options_.patience), console_done_ ? "" : "at least ",
                                Count(shown.unshown_lines, "line"),
                                FormatBytes(shown.unshown_bytes)));
    } else if (!console_done_) {
      reporter_.Say("the rest of the output was not shown");
    }
    if (console_done_ && !shown.read_status.ok() && shown.closed_error == 0) {
      reporter_.Say(
          fmt::format("the output could not be read to its end: {}", MessageOf(shown.read_status)));
    }
  }
  if (files_ && !files_done_) {
    reporter_.Say(fmt::format("the log files in {} are not complete", files_->folder()));
  } else if (files_ && !files_status_.ok()) {
    reporter_.Say(fmt::format("the log files in {} are not complete: {}", files_->folder(),
                              MessageOf(files_status_)));
  } else if (files_ && files_->missing_bytes() > LostBytes()) {
    reporter_.Say(fmt::format("{} are missing from the log files in {}",
                              FormatBytes(files_->missing_bytes()), files_->folder()));
  }
}

EndContext Follower::MakeEndContext() {
  const v1::Job& job = view_.job();
  EndContext context;
  if (files_) context.log_folder = files_->folder();
  context.log_command = options_.log_command;
  context.local = options_.local;
  context.lost_bytes = LostBytes();
  const v1::Failure& failure = job.first_failure();
  if (failure.has_rank() && job.state() == v1::Job::FAILED) {
    context.last_lines = ReadLastLines(client_, job.job_id(), failure.rank(), kLastLines);
  }
  struct statvfs shm = {};
  if (options_.local && ::statvfs("/dev/shm", &shm) == 0) {
    context.shm_free_bytes = uint64_t{shm.f_bavail} * shm.f_frsize;
    context.shm_total_bytes = uint64_t{shm.f_blocks} * shm.f_frsize;
  }
  return context;
}

uint64_t Follower::LostBytes() const {
  uint64_t lost = 0;
  for (const v1::JobRank& rank : view_.job().ranks()) lost += rank.dropped_bytes();
  // Whichever stream came to its end knows what never arrived.
  if (console_ && console_done_) return lost + console_->result().missing_bytes;
  return lost;
}

void Follower::Report() {
  const v1::Job& job = view_.job();
  const EndContext context = MakeEndContext();
  if (exit_status_ == 0) {
    for (const std::string& line : SuccessSummary(job, context)) reporter_.Note(line);
    if (context.lost_bytes > 0) {
      reporter_.Say(
          fmt::format("warning: {} of output were lost", FormatBytes(context.lost_bytes)));
    }
    return;
  }
  for (const std::string& line : FailureReport(job, context)) reporter_.Say(line);
}

}  // namespace muster
