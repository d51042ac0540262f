#include "coordinator/cli/follow.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "common/base/annotate.h"
#include "common/base/signal_names.h"
#include "common/config/duration.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/follower.h"
#include "coordinator/cli/names.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

// A start that takes longer is explained.
constexpr milliseconds kWaitIsLong(1'000);
// Progress of many nodes is news no more often than this, where it cannot be overwritten.
constexpr milliseconds kWaitingPause(10'000);
// What the coordinator may take on top of the grace to give a job up whose nodes do not answer.
constexpr milliseconds kStopMargin(75'000);
constexpr milliseconds kIdleLook(60'000);
constexpr size_t kHostsNamed = 8;

milliseconds Until(std::chrono::steady_clock::time_point when,
                   std::chrono::steady_clock::time_point now) {
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(when - now));
}

// Ranks were told to run, so that there can be output.
bool HasRun(const v1::Job& job) {
  if (job.ranks_size() == 0) return false;
  if (job.state() == v1::Job::RUNNING) return true;
  return std::any_of(job.ranks().begin(), job.ranks().end(),
                     [](const v1::JobRank& rank) { return rank.state() != v1::JobRank::WAITING; });
}

}  // namespace

Follower::Follower(Client& client, SignalWatcher& signals, Reporter& reporter,
                   const FollowOptions& options)
    : client_(client),
      signals_(signals),
      reporter_(reporter),
      options_(options),
      begin_(std::chrono::steady_clock::now()) {
  feed_ = std::make_unique<JobFeed>(client_, options_.job_id, options_.reconnect, mailbox_);
  signals_.SetHandler([this](int signal) {
    mailbox_.Add([signal](News& news) { news.signals.push_back(signal); });
  });
}

Follower::~Follower() { signals_.SetHandler(nullptr); }

FollowResult Follower::Run() {
  if (WatchUntilEnd()) {
    exit_status_ = ExitStatusOf(view_.job());
    DrainOutput();
    Report();
  }
  return {view_.job(), exit_status_, LostBytes()};
}

bool Follower::WatchUntilEnd() {
  while (!leave_) {
    if (view_.known() && IsTerminal(view_.job())) return true;
    Handle(mailbox_.Take(NextLook(std::chrono::steady_clock::now())));
    const Time now = std::chrono::steady_clock::now();
    reporter_.Retry();
    if (leave_ || (view_.known() && IsTerminal(view_.job()))) continue;
    SayWaiting(now);
    SayEarlyFailure(now);
    if (cancel_limit_ && now >= *cancel_limit_) {
      reporter_.Say(
          fmt::format("job {} was cancelled and has not ended since; giving up waiting. {}",
                      options_.job_id, view_.job().reason()));
      exit_status_ = kExitBug;
      return false;
    }
  }
  return false;
}

milliseconds Follower::NextLook(Time now) const {
  milliseconds look = kIdleLook;
  if (cancel_limit_) look = std::min(look, Until(*cancel_limit_, now));
  if (failure_seen_ && !failure_said_) {
    look = std::min(look, Until(*failure_seen_ + kEarlyFailure, now));
  }
  // Until all ranks run, time itself is news.
  if (!view_.known() || !WaitingFor(view_.job(), kHostsNamed).empty()) {
    look =
        std::min(look, now < begin_ + kWaitIsLong ? Until(begin_ + kWaitIsLong, now) : kWaitIsLong);
  }
  if (!reporter_.Retry()) look = std::min(look, milliseconds(200));
  return look;
}

void Follower::Handle(const News& news) {
  for (const News::Update& update : news.updates) OnUpdate(update);
  if (news.connected) {
    reporter_.Say(*news.connected
                      ? std::string("connected to the coordinator again")
                      : fmt::format("lost the connection to the coordinator; trying again for {}",
                                    FormatDuration(options_.reconnect)));
  }
  if (news.console_closed) {
    reporter_.Say(fmt::format("stdout was closed ({}): output is no longer shown, the job goes on",
                              MessageOf(ErrnoStatus(*news.console_closed, "write"))));
  }
  if (news.console_done) console_done_ = true;
  if (news.files_done) {
    files_done_ = true;
    files_status_ = news.files_status;
  }
  for (int signal : news.signals) OnSignal(signal);
  if (news.watch_end) OnWatchEnd(*news.watch_end);
}

void Follower::OnUpdate(const News::Update& update) {
  if (update.whole) view_.Restart();
  view_.Apply(update.job);
  const v1::Job& job = view_.job();
  for (const std::string& warning : job.warnings()) {
    if (said_warnings_.insert(warning).second) reporter_.Say("warning: " + warning);
  }
  if (!output_started_ && HasRun(job)) StartOutput();
  // The next attempt has begun, and the warning tells what became of the last.
  if (!job.has_first_failure()) {
    failure_seen_.reset();
    failure_said_ = false;
  }
  if (job.has_first_failure() && !failure_seen_ && job.state() != v1::Job::CANCELLED) {
    failure_seen_ = std::chrono::steady_clock::now();
  }
}

void Follower::StartOutput() {
  output_started_ = true;
  const v1::Job& job = view_.job();
  auto hosts = std::make_shared<std::vector<std::string>>();
  for (const v1::JobRank& rank : job.ranks()) {
    if (rank.rank() >= hosts->size()) hosts->resize(rank.rank() + 1, "?");
    (*hosts)[rank.rank()] = HostOf(job, rank.rank());
  }
  LogFollower::Options logs;
  logs.request.set_job_id(options_.job_id);
  logs.request.set_follow(true);
  logs.reconnect = options_.reconnect;
  // From the first attempt on, also when that was over before this command saw it.
  if (options_.owns_job) logs.from[0] = {.attempt = 1, .next = 0};
  if (!options_.log_dir.empty()) {
    files_done_ = false;
    files_ =
        std::make_unique<RankFiles>(options_.log_dir, options_.job_id,
                                    [this](const std::string& message) { reporter_.Say(message); });
    const uint32_t ranks = static_cast<uint32_t>(hosts->size());
    files_follower_ = std::make_unique<LogFollower>(
        client_, logs,
        [this](const v1::ReadLogsResponse& piece) {
          files_->Take(piece);
          ++files_progress_;
          return true;
        },
        [this, ranks](const absl::Status& status) {
          files_->Finish(ranks);
          mailbox_.Add([status](News& news) {
            news.files_done = true;
            news.files_status = status;
          });
        });
  }
  if (options_.show_output) {
    console_done_ = false;
    Console::Options console;
    console.fd = options_.output_fd;
    console.patience = options_.patience;
    console.logs = logs;
    console.view.terminal = ::isatty(options_.output_fd) == 1;
    console.view.colour = WantsColour(options_.output_fd);
    console.view.host_of = [hosts](uint32_t rank) {
      return rank < hosts->size() ? (*hosts)[rank] : std::string("?");
    };
    Console::Events events;
    events.on_closed = [this](int error) {
      mailbox_.Add([error](News& news) { news.console_closed = error; });
    };
    events.on_done = [this] { mailbox_.Add([](News& news) { news.console_done = true; }); };
    console_ = std::make_unique<Console>(client_, std::move(console), std::move(events));
  }
}

void Follower::OnSignal(int signal) {
  if (AsksToEnd(signal)) {
    OnEndSignal(signal);
  } else {
    PassOn(signal);
  }
}

void Follower::OnEndSignal(int signal) {
  if (first_end_signal_ == 0) first_end_signal_ = signal;
  ++end_signals_;
  // Whoever presses once more does not want to wait for the rest.
  if (draining_) {
    leave_ = true;
    return;
  }
  if (!options_.owns_job) {
    reporter_.Say(fmt::format("left job {}, which goes on", options_.job_id));
    exit_status_ = kExitSignalBase + signal;
    leave_ = true;
    return;
  }
  if (end_signals_ > 2) {
    reporter_.Say(fmt::format("leaving although job {} has not ended", options_.job_id));
    exit_status_ = kExitSignalBase + first_end_signal_;
    leave_ = true;
    return;
  }
  v1::CancelJobRequest request;
  request.set_job_id(options_.job_id);
  request.set_reason(fmt::format("{} at the command", SignalName(signal)));
  request.set_signal(first_end_signal_);
  const bool kill = end_signals_ == 2;
  const milliseconds grace = kill ? milliseconds(0) : options_.grace;
  if (kill) {
    request.mutable_grace();
    reporter_.Say(fmt::format("{}: killing all ranks now", SignalName(signal)));
  } else {
    reporter_.Say(fmt::format(
        "{}: stopping the job, ranks have {} to end by themselves (again to kill them now)",
        SignalName(signal), FormatDuration(grace)));
  }
  cancel_limit_ = std::chrono::steady_clock::now() + grace + kStopMargin;
  if (const absl::StatusOr<v1::Job> job = client_.CancelJob(request); !job.ok()) {
    reporter_.Say(fmt::format("cannot cancel the job: {}", MessageOf(job.status())));
  }
}

void Follower::PassOn(int signal) {
  v1::SignalJobRequest request;
  request.set_job_id(options_.job_id);
  request.set_signal(signal);
  const absl::StatusOr<v1::SignalJobResponse> sent = client_.SignalJob(request);
  if (!sent.ok()) {
    reporter_.Say(
        fmt::format("{} was not passed on: {}", SignalName(signal), MessageOf(sent.status())));
  }
}

void Follower::OnWatchEnd(const absl::Status& status) {
  if (view_.known() && IsTerminal(view_.job())) return;
  exit_status_ = ExitStatusOf(status);
  reporter_.Say(fmt::format("lost the coordinator while following job {}: {}", options_.job_id,
                            MessageOf(status)));
  if (exit_status_ == kExitNoCoordinator && !options_.local) {
    reporter_.Say(fmt::format("the job may still run; to look again: coordinator attach {}",
                              options_.job_id));
  }
  leave_ = true;
}

void Follower::SayWaiting(Time now) {
  if (now < begin_ + kWaitIsLong) return;
  const std::string waiting =
      view_.known() ? WaitingFor(view_.job(), kHostsNamed) : "waiting for the coordinator's answer";
  if (reporter_.is_terminal()) {
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    reporter_.Progress(waiting.empty() ? "" : fmt::format("{} ({:.0f} s)", waiting, seconds));
    return;
  }
  if (waiting.empty() || waiting == said_waiting_) return;
  // Who is missing is news at once; how far the others are is not.
  const bool missing = view_.job().state() == v1::Job::PENDING;
  if (!missing && !said_waiting_.empty() && now < said_waiting_at_ + kWaitingPause) return;
  said_waiting_ = waiting;
  said_waiting_at_ = now;
  reporter_.Note(waiting);
}

FollowResult FollowJob(Client& client, SignalWatcher& signals, Reporter& reporter,
                       const FollowOptions& options) {
  return Follower(client, signals, reporter, options).Run();
}

}  // namespace muster
