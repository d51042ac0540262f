#include "agent/shim/supervisor.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <utility>

#include "agent/shim/exec_image.h"
#include "agent/shim/text.h"
#include "common/base/version.h"
#include "common/io/atomic_file.h"

namespace muster::shim {
namespace {

// A probe of the lock by somebody else lasts microseconds.
constexpr int kLockAttempts = 50;
constexpr timespec kLockPause = {0, 2'000'000};
constexpr milliseconds kRetryEvery{250};
// After the end, for an agent that comes back to read the records; they are on disk too.
constexpr std::chrono::seconds kLinger{60};
// Grace when the lease has run out: the node must be free soon after.
constexpr milliseconds kMostLeaseGrace{4000};
// For the checks of files; a file server that takes longer is of no use.
constexpr std::chrono::seconds kChecksTime{30};
// More than anybody waits for; the start has a limit of its own.
constexpr uint64_t kMostDeviceWaitMs = uint64_t{1000} * 60 * 60 * 24;
// Descriptors per rank (log, two pipes, exec status, cgroup, and some while starting), and for the
// rest.
constexpr uint64_t kDescriptorsPerRank = 6;
constexpr uint64_t kOtherDescriptors = 64;

SteadyTime Now() { return std::chrono::steady_clock::now(); }

std::string RankLogPath(const std::string& directory, uint32_t rank) {
  char name[32];
  std::snprintf(name, sizeof(name), "/rank-%05u.log", rank);
  return directory + name;
}

std::string BootId() {
  std::string text;
  if (ReadFile("/proc/sys/kernel/random/boot_id", text, 256)) return "";
  return text.substr(0, text.find('\n'));
}

}  // namespace

Supervisor::Supervisor(internal::ShimBootstrap bootstrap, const Inherited& inherited)
    : bootstrap_(std::move(bootstrap)),
      link_(poller_, journal_, [this](const auto& request) { HandleRequest(request); }) {
  environment_.poller = &poller_;
  environment_.journal = &journal_;
  environment_.growth = &growth_;
  environment_.inherited = inherited;
  if (bootstrap_.has_rank_oom_score_adj()) {
    environment_.inherited.rank_oom_score_adj = bootstrap_.rank_oom_score_adj();
  }
  environment_.working_directory = bootstrap_.working_directory();
  if (bootstrap_.has_run_as()) environment_.user = UserIdsOf(bootstrap_.run_as());
  if (bootstrap_.slots_are_cards()) {
    environment_.card_problem = [this](uint32_t slot) { return ProblemOfCard(slot); };
  }
  containers_.Configure(bootstrap_);
  environment_.pipe_bytes = PipeBytesFor(static_cast<size_t>(bootstrap_.ranks_size()));
  environment_.buffer.reset(new char[RankEnvironment::kBufferBytes]);
}

int Supervisor::Run() {
  if (const int status = Begin(); status != kExitDone) return status;
  Prepare();
  while (!told_to_exit_) {
    // Before anybody is told: a record must survive the shim.
    journal_.Flush(Now());
    link_.SendRecords();
    growth_.Tell(Now());
    poller_.RunOnce(NextDeadline());
    OnTime(Now());
  }
  return kExitDone;
}

// Takes what the attempt needs before its first record. Failures are told on stderr only: without
// lock, record file and socket there is nobody else to tell.
int Supervisor::Begin() {
  if (const int status = TakeLock(); status != kExitDone) return status;
  if (const std::string& group = bootstrap_.cgroup_directory(); !group.empty()) {
    // Agents remove groups that nobody has locked. Where it fails ranks run in the shim's group.
    cgroup_lock_.Reset(::open(group.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (cgroup_lock_) (void)::flock(cgroup_lock_.get(), LOCK_SH | LOCK_NB);
  }
  const std::string& directory = bootstrap_.attempt_directory();
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigaddset(&mask, SIGTERM);
  signals_.Reset(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!poller_.Open() || !signals_ ||
      !poller_.Watch(signals_.get(), EPOLLIN, [this](uint32_t) { OnSignals(); })) {
    Complain("cannot wait for events: " + ErrnoText(errno));
    return kExitNoResources;
  }
  std::string problem = journal_.Open(directory + "/events.rec",
                                      static_cast<size_t>(bootstrap_.ranks_size()), poller_);
  if (!problem.empty()) {
    Complain(problem);
    return kExitNotMine;
  }
  if (bootstrap_.power_loss_ends_all()) journal_.NeverSync();
  problem = link_.Listen(directory);
  if (!problem.empty()) {
    Complain(problem);
    return kExitNoResources;
  }
  // The end of stdout tells whoever started the shim that its socket can be connected to.
  RedirectStandardStreams(directory.c_str());

  internal::ShimRecord record;
  internal::ShimBegun& begun = *record.mutable_begun();
  begun.set_pid(::getpid());
  begun.set_boot_id(BootId());
  begun.set_version(kVersion);
  journal_.Add(std::move(record), /*durable=*/false);
  RenewLease(bootstrap_.lease_ms());
  return kExitDone;
}

int Supervisor::TakeLock() {
  const std::string path = bootstrap_.attempt_directory() + "/lock";
  lock_.Reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock_) {
    Complain("cannot open " + path + ": " + ErrnoText(errno));
    return kExitNoResources;
  }
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return kExitDone;
    if (errno != EWOULDBLOCK) break;
    // paces: an agent that tests the lock holds it for a moment.
    (void)::nanosleep(&kLockPause, nullptr);
  }
  Complain("cannot lock " + path + ", another shim has this attempt: " + ErrnoText(errno));
  return kExitNotMine;
}

// Leases and checks; finds everything that is wrong, so that the user sees it at once.
void Supervisor::Prepare() {
  OpenLeases();
  const auto ranks = static_cast<uint64_t>(bootstrap_.ranks_size());
  const uint64_t descriptors = kOtherDescriptors + kDescriptorsPerRank * ranks;
  if (environment_.inherited.open_files_limit < descriptors) {
    problems_.push_back({"open-files", "the limit of open files is " +
                                           std::to_string(environment_.inherited.open_files_limit) +
                                           ", but " + std::to_string(descriptors) +
                                           " are needed (ulimit -Hn)"});
  }
  cards_end_ = Now() + milliseconds(std::min(bootstrap_.device_wait_ms(), kMostDeviceWaitMs));
  TakeSlots(Now());
  checks_end_ = Now() + kChecksTime;
  CheckImage();
  checker_.Start(bootstrap_, [this](std::vector<Problem> problems, std::vector<std::string> paths) {
    EndChecks(std::move(problems), std::move(paths));
  });
}

void Supervisor::OpenLeases() {
  std::string problem;
  leases_ = LeasesFor(bootstrap_, problem);
  if (!leases_) {
    problems_.push_back({"lease-directory", "the directory of leases cannot be used: " + problem});
    return;
  }
  if (bootstrap_.reserve_port()) {
    problem = leases_->TakePort(bootstrap_.port(), bootstrap_.reserve_companion_port(), port_hold_,
                                port_);
    if (!problem.empty()) problems_.push_back({"port", problem});
  }
}

void Supervisor::EndChecks(std::vector<Problem> problems, std::vector<std::string> paths) {
  for (Problem& problem : problems) problems_.push_back(std::move(problem));
  paths_ = std::move(paths);
  EndPrepare();
}

// Once checks, image and slots are done.
void Supervisor::EndPrepare() {
  if (!paths_.has_value() || !image_checked_) return;
  checks_end_.reset();
  if (!slots_done_) {
    // What cannot start waits for no card: a last look, for all that is to be told.
    if (!problems_.empty()) next_card_look_ = cards_end_ = Now();
    return;
  }
  if (problems_.empty()) {
    MakeRanks(*paths_);
  }
  internal::ShimRecord record;
  if (problems_.empty()) {
    *record.mutable_prepared()->mutable_warnings() = bootstrap_.warnings();
    record.mutable_prepared()->set_port(port_.number);
    if (!port_.warning.empty()) record.mutable_prepared()->add_warnings(port_.warning);
    port_hold_.Answer();
    journal_.Add(std::move(record), /*durable=*/false);
    phase_ = Phase::kPrepared;
    if (early_run_) StartRanks(*std::exchange(early_run_, std::nullopt));
    return;
  }
  for (const Problem& reason : problems_) {
    internal::ShimProblem& told = *record.mutable_prepare_failed()->add_problems();
    told.set_check(reason.check);
    told.set_message(reason.message);
  }
  port_hold_.Release();
  if (leases_) leases_->ReleaseAll();
  journal_.Add(std::move(record), /*durable=*/true);
  phase_ = Phase::kFailed;
}

// The ranks with their cgroups.
void Supervisor::MakeRanks(const std::vector<std::string>& paths) {
  for (int i = 0; i < bootstrap_.ranks_size(); ++i) {
    // Moved: the environments are the largest thing that the shim holds.
    ranks_.push_back(
        std::make_unique<RankProcess>(environment_, std::move(*bootstrap_.mutable_ranks(i))));
    RankProcess& rank = *ranks_.back();
    rank.SetPath(paths[static_cast<size_t>(i)]);
    if (bootstrap_.has_fake_unkillable_rank() &&
        bootstrap_.fake_unkillable_rank() == rank.number()) {
      rank.NeverBelieveEnd();
    }
    rank.SetLog(RankLogPath(bootstrap_.attempt_directory(), rank.number()),
                bootstrap_.log_quota_bytes());
    if (!bootstrap_.cgroup_directory().empty()) rank.CreateCgroup(bootstrap_.cgroup_directory());
  }
  bootstrap_.clear_ranks();
}

void Supervisor::HandleRequest(const internal::ShimRequest& request) {
  switch (request.body_case()) {
    case internal::ShimRequest::kRun:
      StartRanks(request.run().env());
      break;
    case internal::ShimRequest::kStop:
      OnStop(request.stop());
      break;
    case internal::ShimRequest::kSignal: {
      const auto& wanted = request.signal().ranks();
      for (const auto& rank : ranks_) {
        const bool meant = wanted.empty() ||
                           std::find(wanted.begin(), wanted.end(), rank->number()) != wanted.end();
        if (meant) rank->Signal(request.signal().signal());
      }
      break;
    }
    case internal::ShimRequest::kRenew:
      RenewLease(request.renew().lease_ms());
      break;
    case internal::ShimRequest::kCommitted:
      for (const auto& rank : ranks_) {
        if (rank->number() == request.committed().rank() && !rank->log_closed()) {
          rank->log().Commit(request.committed().size());
          growth_.Note(rank->number(), rank->log().fixed_bytes());
        }
      }
      break;
    case internal::ShimRequest::kQuit:
      quit_ = phase_ == Phase::kFailed || phase_ == Phase::kStopped;
      break;
    case internal::ShimRequest::kAttach:
    case internal::ShimRequest::BODY_NOT_SET:
      // Of a newer agent.
      break;
  }
}

void Supervisor::StartRanks(const Strings& added) {
  if (phase_ == Phase::kChecking) early_run_ = added;
  if (phase_ != Phase::kPrepared) return;
  phase_ = Phase::kRunning;
  // Rank 0 binds it.
  port_hold_.Release();
  environment_.oom_watch.Open();
  containers_.NoteStart();
  MarkSlotsOfContainers();
  for (const auto& rank : ranks_) rank->Start(added);
  // The environments are gone now; their memory goes back to the kernel.
  (void)::malloc_trim(0);
  ReleaseProgramPages();
  WatchForStalls(Now());
  AfterEnds();
}

void Supervisor::OnSignals() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    if (info.ssi_signo == static_cast<uint32_t>(SIGCHLD)) {
      Reap();
    } else if (phase_ == Phase::kStopped || phase_ == Phase::kFailed) {
      told_to_exit_ = true;
    } else {
      SelfStop("the shim was sent SIGTERM", milliseconds(bootstrap_.grace_ms()));
    }
  }
}

void Supervisor::RenewLease(uint64_t lease_ms) {
  lease_end_.reset();
  // A time that no clock reaches is none.
  constexpr uint64_t kMost = uint64_t{1000} * 60 * 60 * 24 * 365;
  if (lease_ms != 0 && lease_ms < kMost) lease_end_ = Now() + milliseconds(lease_ms);
}

void Supervisor::OnStop(const internal::ShimStop& stop) {
  const milliseconds grace(stop.grace_ms());
  const bool begins = phase_ == Phase::kChecking || phase_ == Phase::kPrepared ||
                      (phase_ == Phase::kRunning && !stopping_);
  if (begins && !stop.reason().empty()) {
    SelfStop(stop.reason(), grace);
  } else {
    Stop(grace);
  }
}

void Supervisor::SelfStop(const std::string& reason, milliseconds grace) {
  lease_end_.reset();
  internal::ShimRecord record;
  record.mutable_self_stop()->set_reason(reason);
  journal_.Add(std::move(record), /*durable=*/false);
  Stop(grace);
}

SteadyTime Supervisor::NextDeadline() const {
  SteadyTime next = Now() + kLinger;
  for (const OptionalTime& time :
       {journal_.deadline(), growth_.deadline(), checks_end_, lease_end_, kill_at_, next_pass_,
        cleanup_end_, next_log_check_, next_stall_look_, next_card_look_, next_retry_, linger_end_,
        fake_end_, port_hold_.deadline(), containers_.deadline()}) {
    if (time) next = std::min(next, *time);
  }
  return next;
}

// Everything that is due by time, and what became due in this turn of the loop.
void Supervisor::OnTime(SteadyTime now) {
  const bool over = phase_ == Phase::kStopped || phase_ == Phase::kFailed;
  if (lease_end_ && now >= *lease_end_) {
    lease_end_.reset();
    lease_ran_out_ = true;
    if (!over) {
      SelfStop("nobody has renewed the lease: agent or coordinator are gone",
               std::min(milliseconds(bootstrap_.grace_ms()), kMostLeaseGrace));
    }
  }
  if (checks_end_ && now >= *checks_end_) {
    checker_.Abandon();
    containers_.Abandon();
    image_checked_ = true;
    EndChecks(
        {{"checks", "looking at working directory, script and program took longer than " +
                        std::to_string(kChecksTime.count()) + " s: a file system does not answer"}},
        {});
  }
  port_hold_.OnTime(now);
  containers_.OnTime(now);
  if (next_card_look_ && now >= *next_card_look_) TakeSlots(now);
  AfterEnds();
  if (kill_at_ && now >= *kill_at_) {
    kill_at_.reset();
    BeginCleanup(/*kill_now=*/true);
  }
  if (next_log_check_ && now >= *next_log_check_) CheckOpenLogs(now);
  if (next_stall_look_ && now >= *next_stall_look_) LookForStalls(now);
  if (next_pass_ && now >= *next_pass_) KillEverything(now);
  if (phase_ == Phase::kCleaning && (EverythingGone() || (cleanup_end_ && now >= *cleanup_end_))) {
    Finish();
  }

  if (next_retry_ && now >= *next_retry_) {
    next_retry_.reset();
    timespec wall = {};
    ::clock_gettime(CLOCK_REALTIME, &wall);
    for (const auto& rank : ranks_) {
      if (rank->log_closed() || !rank->log().HasBacklog()) continue;
      rank->log().Retry(int64_t{wall.tv_sec} * 1'000'000'000 + wall.tv_nsec, now);
      growth_.Note(rank->number(), rank->log().fixed_bytes());
    }
  }
  const bool backlog =
      journal_.HasBacklog() || std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
        return !rank->log_closed() && rank->log().HasBacklog();
      });
  if (backlog && !next_retry_) next_retry_ = now + kRetryEvery;
  CheckLingering(now);
}

// Ends the shim when its work is done and nobody needs it.
void Supervisor::CheckLingering(SteadyTime now) {
  if (phase_ != Phase::kStopped && phase_ != Phase::kFailed) return;
  if (stuck_) {
    linger_end_.reset();
    return;
  }
  if (quit_) {
    told_to_exit_ = true;
  } else if (link_.attached()) {
    linger_end_.reset();
  } else if (lease_ran_out_) {
    // Whoever comes later reads the records from disk; nobody is expected to.
    told_to_exit_ = true;
  } else if (!linger_end_) {
    linger_end_ = now + kLinger;
  } else if (now >= *linger_end_) {
    told_to_exit_ = true;
  }
}

}  // namespace muster::shim
