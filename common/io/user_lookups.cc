#include "common/io/user_lookups.h"

#include <fmt/format.h>
#include <signal.h>

#include <map>
#include <system_error>
#include <thread>

#include "common/base/mutex.h"

namespace muster {

struct UserLookups::Link {
  // Gives the place of a lookup back and has `then` run on the executor, if that is there still.
  void Ended(const std::string& whom, Executor::Task then) {
    MutexLock lock(mutex);
    --running;
    const auto mine = running_of.find(whom);
    if (--mine->second == 0) running_of.erase(mine);
    if (executor != nullptr) executor->Post(std::move(then));
  }

  Mutex mutex;
  // Null once nobody is there to be answered.
  Executor* executor ABSL_GUARDED_BY(mutex) = nullptr;
  int running ABSL_GUARDED_BY(mutex) = 0;
  std::map<std::string, int> running_of ABSL_GUARDED_BY(mutex);
};

struct UserLookups::Lookup {
  // On the executor's thread only. Empty once it was called.
  Done done;
  Executor::TimerId timer = 0;
};

UserLookups::UserLookups(Executor& executor, Options options)
    : executor_(executor), options_(options), link_(std::make_shared<Link>()) {
  MutexLock lock(link_->mutex);
  link_->executor = &executor;
}

UserLookups::~UserLookups() {
  MutexLock lock(link_->mutex);
  link_->executor = nullptr;
}

absl::Status UserLookups::Admit(const std::string& whom) {
  MutexLock lock(link_->mutex);
  const auto mine = link_->running_of.find(whom);
  const int of_one = mine == link_->running_of.end() ? 0 : mine->second;
  if (link_->running >= options_.most || of_one >= options_.most_of_one) {
    return absl::UnavailableError(
        fmt::format("the user database of this machine does not answer: {} lookups hang, {} of {}",
                    link_->running, of_one, whom));
  }
  ++link_->running;
  ++link_->running_of[whom];
  return absl::OkStatus();
}

void UserLookups::Start(const std::string& whom, std::function<void()> look_up, Done done) {
  const auto lookup = std::make_shared<Lookup>();
  lookup->done = std::move(done);
  if (absl::Status admitted = Admit(whom); !admitted.ok()) {
    return AnswerLater(lookup, std::move(admitted));
  }
  lookup->timer =
      executor_.PostAfter(options_.limit, [this, lookup, whom, alive = std::weak_ptr<int>(alive_)] {
        if (alive.expired()) return;
        Answer(lookup, absl::DeadlineExceededError(fmt::format(
                           "the user database of this machine did not find {} within {} ms", whom,
                           options_.limit.count())));
      });
  const auto work = [this, alive = std::weak_ptr<int>(alive_), link = link_, lookup, whom,
                     look_up = std::move(look_up)] {
    look_up();
    link->Ended(whom, [this, alive, lookup] {
      if (!alive.expired()) Answer(lookup, absl::OkStatus());
    });
  };
  // Signals belong to the thread that runs the loop.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(work).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    link_->Ended(whom, [] {});
    AnswerLater(lookup, absl::ResourceExhaustedError(fmt::format("no thread to look up {}: {}",
                                                                 whom, error.code().message())));
  }
}

void UserLookups::AnswerLater(const std::shared_ptr<Lookup>& lookup, absl::Status status) {
  executor_.Post([this, lookup, status = std::move(status), alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) Answer(lookup, status);
  });
}

void UserLookups::Answer(const std::shared_ptr<Lookup>& lookup, const absl::Status& status) {
  if (!lookup->done) return;
  executor_.Cancel(lookup->timer);
  std::exchange(lookup->done, nullptr)(status);
}

}  // namespace muster
