// Asks the user database of this machine (NSS: /etc/passwd, LDAP, ...), which may hang, on threads
// of their own and waits so long only. Lives on the executor's thread.
//
// A thread that hangs cannot be ended, so their number is bounded, and what one name can have of
// them, too: who hangs holds up nobody else.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/base/executor.h"

namespace muster {

class UserLookups {
 public:
  struct Options {
    // How long the user database may take.
    std::chrono::milliseconds limit{5000};
    // A database that has not answered so many lookups is not asked once more; nor so many of one
    // user about that user.
    int most = 64;
    int most_of_one = 8;
  };

  // `executor` outlives it.
  UserLookups(Executor& executor, Options options);
  // Lookups that run may outlive it; they are not answered.
  ~UserLookups();
  UserLookups(const UserLookups&) = delete;
  UserLookups& operator=(const UserLookups&) = delete;

  // Runs `look_up` on a thread of its own and gives what it returns to `done`, later and once.
  // `whom`: the user, for texts, as in "user alice". DEADLINE_EXCEEDED: it takes too long;
  // UNAVAILABLE: too many hang; RESOURCE_EXHAUSTED: there is no thread.
  template <typename Answer>
  void Ask(const std::string& whom, std::function<absl::StatusOr<Answer>()> look_up,
           std::function<void(absl::StatusOr<Answer>)> done) {
    const auto answer = std::make_shared<absl::StatusOr<Answer>>(absl::UnknownError("no answer"));
    Start(
        whom, [answer, look_up = std::move(look_up)] { *answer = look_up(); },
        // Only once the thread is through with it, when the status is OK.
        [answer, done = std::move(done)](const absl::Status& status) {
          done(status.ok() ? std::move(*answer) : absl::StatusOr<Answer>(status));
        });
  }

 private:
  using Done = std::function<void(const absl::Status&)>;
  // What threads know of this object. They may outlive it.
  struct Link;
  struct Lookup;

  void Start(const std::string& whom, std::function<void()> look_up, Done done);
  // Takes a place for one more. UNAVAILABLE: there is none.
  absl::Status Admit(const std::string& whom);
  void Answer(const std::shared_ptr<Lookup>& lookup, const absl::Status& status);
  void AnswerLater(const std::shared_ptr<Lookup>& lookup, absl::Status status);

  Executor& executor_;
  const Options options_;
  const std::shared_ptr<Link> link_;
  // Posted tasks look here whether this object still lives.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace muster
