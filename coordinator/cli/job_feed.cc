#include "coordinator/cli/job_feed.h"

#include <utility>

#include "coordinator/cli/exit_status.h"

namespace muster {
namespace {

constexpr std::chrono::milliseconds kRetryPause(250);

}  // namespace

void Mailbox::Add(const std::function<void(News&)>& change) {
  MutexLock lock(mutex_);
  change(news_);
  changed_.notify_all();
}

News Mailbox::Take(std::chrono::milliseconds limit) {
  MutexLock lock(mutex_);
  changed_.wait_for(mutex_, limit,
                    [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !news_.empty(); });
  return std::exchange(news_, {});
}

JobFeed::JobFeed(JobSource& source, std::string job_id, std::chrono::milliseconds reconnect,
                 Mailbox& mailbox)
    : source_(source),
      job_id_(std::move(job_id)),
      reconnect_(reconnect),
      mailbox_(mailbox),
      thread_([this] { Run(); }) {}

JobFeed::~JobFeed() {
  cancellation_.Cancel();
  {
    MutexLock lock(mutex_);
    cancelled_.notify_all();
  }
  thread_.join();
}

void JobFeed::Run() {
  bool connected = true;
  auto give_up = std::chrono::steady_clock::now() + reconnect_;
  absl::Status status;
  for (;;) {
    bool whole = true;
    bool terminal = false;
    status = source_.WatchJob(job_id_, cancellation_, [&](v1::Job job) {
      terminal = IsTerminal(job);
      mailbox_.Add([&](News& news) {
        if (!connected) news.connected = true;
        news.updates.push_back({whole, std::move(job)});
      });
      connected = true;
      whole = false;
      return true;
    });
    // A stream that ends well before the job does is a coordinator that stops.
    if (status.ok() && !terminal) status = absl::UnavailableError("the coordinator stopped");
    const auto now = std::chrono::steady_clock::now();
    if (!whole) give_up = now + reconnect_;
    if (terminal || !absl::IsUnavailable(status) || now >= give_up || cancellation_.cancelled()) {
      if (terminal) status = absl::OkStatus();
      break;
    }
    if (connected) mailbox_.Add([](News& news) { news.connected = false; });
    connected = false;
    MutexLock lock(mutex_);
    cancelled_.wait_for(mutex_, kRetryPause, [this] { return cancellation_.cancelled(); });
  }
  mailbox_.Add([&status](News& news) { news.watch_end = status; });
}

}  // namespace muster
