// Lookups that hang, on a real loop.
#include "common/io/user_lookups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "common/io/event_loop.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class UserLookupsTest : public ::testing::Test {
 protected:
  // What hangs uses members of the test.
  ~UserLookupsTest() override { LetGo(); }

  // Hangs until LetGo.
  absl::StatusOr<std::string> Hang() {
    std::unique_lock lock(mutex_);
    ++hanging_;
    wake_.notify_all();
    wake_.wait(lock, [this] { return let_go_; });
    --hanging_;
    wake_.notify_all();
    return std::string("late");
  }
  void AwaitHanging(int lookups) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return hanging_ == lookups; });
  }
  void LetGo() {
    std::unique_lock lock(mutex_);
    let_go_ = true;
    wake_.notify_all();
    wake_.wait(lock, [this] { return hanging_ == 0; });
  }
  void AskHanging(UserLookups& lookups, const std::string& whom) {
    lookups.Ask<std::string>(
        whom, [this] { return Hang(); },
        [this](absl::StatusOr<std::string> answer) { answers_.push_back(std::move(answer)); });
  }
  // The answer for one who does not hang.
  absl::StatusOr<std::string> Ask(UserLookups& lookups, const std::string& whom) {
    absl::StatusOr<std::string> result = absl::UnknownError("no answer");
    lookups.Ask<std::string>(
        whom, [whom]() -> absl::StatusOr<std::string> { return whom; },
        [&](absl::StatusOr<std::string> answer) {
          result = std::move(answer);
          loop_.Stop();
        });
    loop_.Run();
    return result;
  }

  EventLoop loop_;
  std::vector<absl::StatusOr<std::string>> answers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool let_go_ = false;
  int hanging_ = 0;
};

TEST_F(UserLookupsTest, AnswersOthersWhileOneHangs) {
  UserLookups lookups(loop_, {.limit = std::chrono::hours(1)});
  AskHanging(lookups, "alice");
  AwaitHanging(1);
  EXPECT_EQ(*Ask(lookups, "bob"), "bob");
  EXPECT_TRUE(answers_.empty());
}

TEST_F(UserLookupsTest, GivesUpOnWhatTakesTooLong) {
  UserLookups lookups(loop_, {.limit = std::chrono::milliseconds(50)});
  absl::StatusOr<std::string> slow = absl::UnknownError("no answer");
  lookups.Ask<std::string>(
      "alice", [this] { return Hang(); },
      [&](absl::StatusOr<std::string> answer) {
        slow = std::move(answer);
        loop_.Stop();
      });
  loop_.Run();
  EXPECT_TRUE(absl::IsDeadlineExceeded(slow.status()));
  EXPECT_THAT(std::string(slow.status().message()), HasSubstr("did not find alice within 50 ms"));
}

TEST_F(UserLookupsTest, WhoHangsTakesNoPlaceOfOthers) {
  UserLookups lookups(loop_, {.limit = std::chrono::hours(1), .most = 4, .most_of_one = 2});
  AskHanging(lookups, "alice");
  AskHanging(lookups, "alice");
  AwaitHanging(2);
  EXPECT_TRUE(absl::IsUnavailable(Ask(lookups, "alice").status()));
  EXPECT_EQ(*Ask(lookups, "bob"), "bob");
}

TEST_F(UserLookupsTest, ADatabaseThatHangsForAllIsAskedNoMore) {
  UserLookups lookups(loop_, {.limit = std::chrono::hours(1), .most = 2});
  AskHanging(lookups, "alice");
  AskHanging(lookups, "bob");
  AwaitHanging(2);
  const absl::Status refused = Ask(lookups, "carol").status();
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("2 lookups hang, 0 of carol"));
}

TEST_F(UserLookupsTest, PlacesAreFreeAgainWhenTheDatabaseIsBack) {
  UserLookups lookups(loop_, {.limit = std::chrono::hours(1), .most = 1});
  absl::StatusOr<std::string> late = absl::UnknownError("no answer");
  lookups.Ask<std::string>(
      "alice", [this] { return Hang(); },
      [&](absl::StatusOr<std::string> answer) {
        late = std::move(answer);
        loop_.Stop();
      });
  AwaitHanging(1);
  LetGo();
  loop_.Run();
  EXPECT_EQ(*late, "late");
  EXPECT_EQ(*Ask(lookups, "bob"), "bob");
}

TEST_F(UserLookupsTest, NobodyIsAnsweredOnceItIsGone) {
  {
    UserLookups lookups(loop_, {.limit = std::chrono::hours(1)});
    AskHanging(lookups, "alice");
    AwaitHanging(1);
  }
  LetGo();
  loop_.Post([this] { loop_.Stop(); });
  loop_.Run();
  EXPECT_TRUE(answers_.empty());
}

}  // namespace
}  // namespace muster
