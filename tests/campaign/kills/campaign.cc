#include "tests/campaign/kills/campaign.h"

#include <fmt/format.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "common/rpc/channel.h"

namespace muster::testing {
namespace {

using std::chrono::milliseconds;

uint64_t SeedOfThisRun() {
  if (const char* given = std::getenv("MUSTER_CAMPAIGN_SEED")) {
    return std::strtoull(given, nullptr, 10);
  }
  return std::random_device()();
}

void SetDeadline(grpc::ClientContext& context, milliseconds limit) {
  context.set_deadline(std::chrono::system_clock::now() + limit);
}

// True for a process that has an exit of its own to tell: a child of a shim.
bool IsRank(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  std::string parent;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("PPid:")) parent = line.substr(line.find_last_of(" \t") + 1);
  }
  std::ifstream file("/proc/" + parent + "/comm");
  std::string name;
  std::getline(file, name);
  return name == "muster-shim";
}

// The coordinator was killed, or has cancelled the call because it was told to end.
bool IsGone(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::CANCELLED;
}

bool IsTerminal(const v1::Job& job) {
  return job.state() == v1::Job::SUCCEEDED || job.state() == v1::Job::FAILED ||
         job.state() == v1::Job::CANCELLED;
}

}  // namespace

Campaign::Campaign(Options options)
    : options_(options),
      seed_(SeedOfThisRun()),
      random_(seed_),
      cluster_(kNodes, kLanes),
      lanes_(kLanes) {
  if (options_.relayed) AddRelays();
  cluster_.Start();
}

Campaign::~Campaign() = default;

int Campaign::Kills(int usual) {
  const char* factor = std::getenv("MUSTER_CAMPAIGN_FACTOR");
  return factor == nullptr ? usual : usual * std::atoi(factor);
}

Campaign::Clock::time_point Campaign::SoonAfter(milliseconds most) {
  return Clock::now() +
         milliseconds(std::uniform_int_distribution<int64_t>(0, most.count())(random_));
}

v1::JobService::Stub& Campaign::Jobs() {
  if (jobs_ == nullptr) jobs_ = v1::JobService::NewStub(*MakeChannel("unix:" + cluster_.socket()));
  return *jobs_;
}

// A connection that failed: the next call makes a new one, without waiting for gRPC to try again.
void Campaign::Forget() { jobs_.reset(); }

void Campaign::Step() {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    std::unique_ptr<CampaignJob>& job = lanes_[lane];
    if (job == nullptr) {
      if (finishing_) continue;
      job = std::make_unique<CampaignJob>(next_number_++, kNodes, lane, cluster_.box().path(),
                                          random_);
    }
    if (job->id.empty() && !Submit(*job)) break;
    if (Look(*job)) job.reset();
  }
  // Paces: answers of a coordinator that is busy with other things are not worth asking for faster.
  ::poll(nullptr, 0, 2);
}

bool Campaign::Submit(CampaignJob& job) {
  grpc::ClientContext context;
  SetDeadline(context, milliseconds(5000));
  v1::Job view;
  const grpc::Status status = Jobs().SubmitJob(&context, job.request(), &view);
  if (status.ok()) {
    job.id = view.job_id();
    return true;
  }
  if (!IsGone(status)) {
    Problem(job, "not accepted: " + status.error_message());
  }
  Forget();
  return false;
}

bool Campaign::Look(CampaignJob& job) {
  grpc::ClientContext context;
  SetDeadline(context, milliseconds(5000));
  v1::GetJobRequest request;
  request.set_job_id(job.id);
  v1::Job view;
  const grpc::Status status = Jobs().GetJob(&context, request, &view);
  if (!status.ok()) {
    if (!IsGone(status)) {
      Problem(job, "cannot be looked at: " + status.error_message());
      return true;
    }
    Forget();
    return false;
  }
  if (!IsTerminal(view)) return false;
  const std::string problem = job.CheckEnd(view, options_.loss_allowed);
  if (!problem.empty()) {
    Problem(job, problem);
    return true;
  }
  if (!CheckLogs(job, view)) return false;
  if (view.exit_code() == 121) ++lost_jobs_;
  if (view.state() == v1::Job::CANCELLED) ++cancelled_jobs_;
  ++jobs_checked_;
  return true;
}

// False when the coordinator went away, or output is still on its way: to be tried again. Does not
// wait long for it, because it may wait for an agent that the test is about to start.
bool Campaign::CheckLogs(const CampaignJob& job, const v1::Job& view) {
  grpc::ClientContext context;
  SetDeadline(context, milliseconds(500));
  v1::ReadLogsRequest request;
  request.set_job_id(job.id);
  request.set_follow(true);
  const auto stream = Jobs().ReadLogs(&context, request);
  std::map<uint32_t, std::string> files;
  std::map<uint32_t, uint64_t> missing;
  v1::ReadLogsResponse response;
  while (stream->Read(&response)) {
    files[response.rank()] += response.data();
    missing[response.rank()] += response.missing_bytes();
  }
  const grpc::Status status = stream->Finish();
  if (IsGone(status)) {
    Forget();
    return false;
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) return false;
  if (!status.ok()) Problem(job, "logs cannot be read: " + status.error_message());
  for (const v1::JobRank& rank : view.ranks()) {
    const std::string problem = job.CheckLog(rank, files[rank.rank()]);
    if (!problem.empty()) Problem(job, problem);
    if (missing[rank.rank()] > 0 && !options_.loss_allowed) {
      Problem(job,
              fmt::format("{} bytes of rank {} are missing", missing[rank.rank()], rank.rank()));
    }
  }
  return true;
}

void Campaign::Problem(const CampaignJob& job, const std::string& text) {
  problems_.push_back(fmt::format("job {} ({}): {}", job.id, job.request().request_id(), text));
}

void Campaign::Finish() {
  finishing_ = true;
  for (auto& [index, relay] : relays_) relay->Set({});
  const auto all_over = [this] {
    Step();
    return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& job) { return !job; });
  };
  if (!WaitUntil(all_over, Seconds(90))) {
    for (const auto& job : lanes_) {
      if (job != nullptr) Problem(*job, "does not end");
    }
  }
  if (!WaitUntil([this] { return cluster_.JobProcesses().empty(); }, Seconds(5))) {
    problems_.push_back(fmt::format("{} processes are left", cluster_.JobProcesses().size()));
  }
}

std::string Campaign::Report() const {
  std::string text;
  for (const std::string& problem : problems_) text += problem + "\n";
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format(
      "{}{} jobs were right; again: MUSTER_CAMPAIGN_SEED={} campaign_tests "
      "--gtest_filter={}.{}\n",
      text, jobs_checked_, seed_, info->test_suite_name(), info->name());
}

bool Campaign::KillAnAgent() {
  const int index = std::uniform_int_distribution<int>(1, kNodes)(random_);
  if (Clock::now() < agent_due_[index]) return false;
  RestartAgent(index);
  agent_due_[index] = SoonAfter(milliseconds(120));
  return true;
}

bool Campaign::KillTheCoordinator() {
  if (Clock::now() < coordinator_due_) return false;
  RestartTheCoordinator();
  coordinator_due_ = SoonAfter(milliseconds(600));
  return true;
}

void Campaign::RestartTheCoordinator() {
  if (!cluster_.coordinator().ended()) cluster_.KillCoordinator();
  cluster_.StartCoordinator();
  Forget();
}

void Campaign::RestartAgent(int index) {
  if (!cluster_.agent_run(index).ended()) cluster_.KillAgent(index);
  cluster_.StartAgent(index);
}

bool Campaign::CancelAJob() {
  bool any = false;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const auto& job = lanes_[lane];
    if (job == nullptr || job->id.empty()) {
      cancel_due_[lane] = SoonAfter(milliseconds(400));
      continue;
    }
    if (job->cancelled || Clock::now() < cancel_due_[lane]) continue;
    grpc::ClientContext context;
    SetDeadline(context, milliseconds(5000));
    v1::CancelJobRequest request;
    request.set_job_id(job->id);
    if (std::uniform_int_distribution<int>(0, 1)(random_) == 0) {
      request.mutable_grace()->set_seconds(0);
    }
    v1::Job view;
    const grpc::Status status = Jobs().CancelJob(&context, request, &view);
    if (!status.ok()) Problem(*job, "cannot be cancelled: " + status.error_message());
    job->cancelled = true;
    any = true;
  }
  return any;
}

bool Campaign::KillAShim() {
  if (Clock::now() < shim_due_) return false;
  std::vector<pid_t> shims;
  for (const pid_t pid : cluster_.JobProcesses()) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string name;
    std::getline(file, name);
    // A rank bears the name of its shim until it becomes its program.
    if (name == "muster-shim" && !IsRank(pid)) shims.push_back(pid);
  }
  if (shims.empty()) return false;
  ::kill(shims[std::uniform_int_distribution<size_t>(0, shims.size() - 1)(random_)], SIGKILL);
  shim_due_ = SoonAfter(milliseconds(150));
  return true;
}

}  // namespace muster::testing
