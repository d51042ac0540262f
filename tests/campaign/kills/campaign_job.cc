#include "tests/campaign/kills/campaign_job.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "common/io/log_frame.h"
#include "tests/process/rank_probe/seeded_bytes.h"

namespace muster::testing {
namespace {

std::string SeededText(uint64_t seed, size_t count) {
  std::string bytes(count, '\0');
  SeededBytes(seed).Fill(bytes.data(), count);
  return bytes;
}

size_t Lines(const std::string& path) {
  std::ifstream file(path);
  size_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

std::string Describe(const v1::ExitStatus& status) { return status.ShortDebugString(); }

}  // namespace

CampaignJob::CampaignJob(uint64_t number, int nodes, uint32_t lane, const std::string& folder,
                         std::mt19937_64& random)
    : number_(number), lane_(lane), folder_(folder), ranks_(static_cast<size_t>(nodes)) {
  const auto pick = [&random](uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random);
  };
  request_.set_request_id(fmt::format("campaign-{}", number));
  v1::JobSpec& spec = *request_.mutable_spec();
  spec.set_name(fmt::format("job-{}", number));
  for (int node = 1; node <= nodes; ++node) {
    v1::HostEntry& host = *spec.add_hosts();
    host.set_host(fmt::format("node-{}", node));
    host.add_selected_slots(lane);
    host.set_source(fmt::format("hosts:{}", node));
  }
  spec.set_working_directory(folder);
  spec.mutable_grace()->set_seconds(20);
  v1::Program& program = *spec.mutable_program();
  program.set_kind(v1::Program::COMMAND);
  program.set_target(RANK_PROBE);
  const auto step = [&program](auto... words) { (program.add_args(fmt::to_string(words)), ...); };

  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    step("--for-rank", rank, "--append-line", StartsFile(rank));
  }
  step("--for-all");
  const uint64_t pieces = pick(1, 5);
  for (uint64_t piece = 0; piece < pieces; ++piece) {
    const size_t stream = pick(0, 3) == 0 ? 1 : 0;
    const size_t count = pick(0, 4) == 0 ? pick(50'000, 200'000) : pick(1, 5'000);
    const uint64_t seed = number * 1000 + piece * 100;
    step("--rank-bytes", stream + 1, count, seed);
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].output[stream] += SeededText(seed + rank, count);
    }
    step("--sleep-ms", pick(0, 60));
  }
  if (pick(0, 1) == 0) return;
  // One rank fails, when the others have done their work.
  const size_t failing = pick(0, ranks_.size() - 1);
  expected_code_ = static_cast<int>(pick(1, 99));
  ranks_[failing].exit_code = expected_code_;
  const auto done = [&](size_t rank) { return fmt::format("{}/done.{}.{}", folder, number, rank); };
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (rank != failing) step("--for-rank", rank, "--touch", done(rank));
  }
  step("--for-rank", failing);
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (rank != failing) step("--wait-file", done(rank));
  }
  step("--exit", expected_code_);
}

std::string CampaignJob::StartsFile(size_t rank) const {
  return fmt::format("{}/starts.{}.{}", folder_, number_, rank);
}

std::string CampaignJob::CheckEnd(const v1::Job& job, bool loss_allowed) const {
  // One that was cancelled before it was planned has none.
  const bool early = cancelled && job.ranks_size() == 0;
  if (!early && job.ranks_size() != static_cast<int>(ranks_.size())) {
    return fmt::format("{} ranks, state {}, reason {}", job.ranks_size(),
                       v1::Job::State_Name(job.state()), job.reason());
  }
  if (cancelled && job.state() == v1::Job::CANCELLED) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (Lines(StartsFile(rank)) > 1) return fmt::format("rank {} was started twice", rank);
    }
    for (const v1::JobRank& rank : job.ranks()) {
      if (rank.state() == v1::JobRank::LOST) return fmt::format("rank {} is lost", rank.rank());
    }
    return "";
  }
  bool lost = false;
  for (const v1::JobRank& rank : job.ranks()) {
    std::string problem = CheckRank(rank, job, loss_allowed);
    if (!problem.empty()) return problem;
    lost = lost || rank.state() != v1::JobRank::EXITED;
  }
  if (lost && job.cause() == v1::Job::PREPARE_FAILED) {
    // Killed before anything ran.
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (Lines(StartsFile(rank)) > 0) return fmt::format("rank {} was started after all", rank);
    }
    return job.exit_code() == 120 ? "" : fmt::format("not started, with {}", job.exit_code());
  }
  if (lost) {
    // It says so, or a rank failed by itself before the loss.
    const bool told = job.exit_code() == 121 || job.exit_code() == expected_code_;
    return told && job.state() == v1::Job::FAILED
               ? ""
               : fmt::format("ranks lost, and the job ends with {}", job.exit_code());
  }
  if (job.exit_code() == expected_code_) return "";
  return fmt::format("exit status {} instead of {}, cause {}, reason {}", job.exit_code(),
                     expected_code_, v1::Job::Cause_Name(job.cause()), job.reason());
}

std::string CampaignJob::CheckRank(const v1::JobRank& rank, const v1::Job& job,
                                   bool loss_allowed) const {
  const RankPlan& plan = ranks_[rank.rank()];
  const size_t starts = Lines(StartsFile(rank.rank()));
  if (starts > 1) return fmt::format("rank {} was started {} times", rank.rank(), starts);
  if (rank.state() == v1::JobRank::EXITED) {
    const v1::ExitStatus& status = rank.status();
    const bool own =
        status.outcome_case() == v1::ExitStatus::kExitCode && status.exit_code() == plan.exit_code;
    const bool stopped =
        status.outcome_case() == v1::ExitStatus::kSignal &&
        (status.signal() == SIGTERM || status.signal() == SIGKILL) &&
        job.state() == v1::Job::FAILED &&
        !(job.first_failure().has_rank() && job.first_failure().rank() == rank.rank());
    if (own && starts == 0) return fmt::format("rank {} ended and was never started", rank.rank());
    // It may be stopped before its program does anything.
    if (own || (stopped && (plan.exit_code == 0 || loss_allowed))) return "";
    return fmt::format("rank {} ended with {} instead of {}", rank.rank(), Describe(status),
                       plan.exit_code);
  }
  if (loss_allowed) return "";
  return fmt::format("rank {} is {}: {}; job {}: {}", rank.rank(),
                     v1::JobRank::State_Name(rank.state()), rank.lost_reason(),
                     v1::Job::Cause_Name(job.cause()), job.reason());
}

std::string CampaignJob::CheckLog(const v1::JobRank& rank, const std::string& frames) const {
  const RankPlan& plan = ranks_[rank.rank()];
  FrameReader reader;
  reader.Feed(frames);
  std::string output[2];
  while (const std::optional<Frame> frame = reader.Next()) {
    if (frame->kind == FrameKind::kStdout) output[0] += frame->payload;
    if (frame->kind == FrameKind::kStderr) output[1] += frame->payload;
    if (DroppedBy(*frame)) return fmt::format("rank {} has a gap", rank.rank());
  }
  if (reader.corrupt()) return fmt::format("the log of rank {} is no log", rank.rank());
  const bool whole = rank.state() == v1::JobRank::EXITED && rank.status().has_exit_code() &&
                     rank.status().exit_code() == plan.exit_code;
  for (const int stream : {0, 1}) {
    const bool right = whole ? output[stream] == plan.output[stream]
                             : plan.output[stream].starts_with(output[stream]);
    if (right) continue;
    return fmt::format("stream {} of rank {}: {} bytes, {} written, and they differ", stream + 1,
                       rank.rank(), output[stream].size(), plan.output[stream].size());
  }
  const uint64_t written = plan.output[0].size() + plan.output[1].size();
  if (whole && (rank.written_bytes() != written || rank.dropped_bytes() != 0)) {
    return fmt::format("rank {} wrote {} bytes, told are {} and {} dropped", rank.rank(), written,
                       rank.written_bytes(), rank.dropped_bytes());
  }
  return "";
}

}  // namespace muster::testing
