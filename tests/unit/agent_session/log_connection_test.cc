#include "agent/session/log_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/testing/sim_executor.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::SimExecutor;
using testing::SimQueue;

struct Transport final : LogTransport {
  bool Open() override {
    calls.emplace_back(can_dial ? "open" : "cannot");
    return can_dial;
  }
  void Close() override { calls.emplace_back("close"); }
  std::vector<std::string> Take() { return std::exchange(calls, {}); }

  std::vector<std::string> calls;
  bool can_dial = true;
};

class LogConnectionTest : public ::testing::Test {
 protected:
  // A connection that has done its work.
  void OpenAndFinish() {
    connection_.OnSession();
    connection_.OnWork(true);
    connection_.OnAnswered();
    connection_.OnWork(false);
    EXPECT_THAT(transport_.Take(), ElementsAre("open"));
  }

  static constexpr Duration kAlmost = LogConnection::kIdle - milliseconds(1);

  SimQueue queue_;
  SimExecutor executor_{queue_};
  Transport transport_;
  LogConnection connection_{executor_, transport_, 1};
};

TEST_F(LogConnectionTest, IsMadeAtOnceWhenThereIsWorkInASession) {
  connection_.OnSession();
  queue_.RunFor(seconds(600));
  EXPECT_THAT(transport_.Take(), IsEmpty()) << "nothing to ship";
  connection_.OnWork(true);
  EXPECT_THAT(transport_.Take(), ElementsAre("open"));
  EXPECT_TRUE(connection_.is_open());
}

TEST_F(LogConnectionTest, WaitsForASession) {
  connection_.OnWork(true);
  queue_.RunFor(seconds(600));
  EXPECT_THAT(transport_.Take(), IsEmpty());
  connection_.OnSession();
  EXPECT_THAT(transport_.Take(), ElementsAre("open"));
}

TEST_F(LogConnectionTest, StaysWhileThereIsWork) {
  connection_.OnSession();
  connection_.OnWork(true);
  queue_.RunFor(seconds(3600));
  EXPECT_THAT(transport_.Take(), ElementsAre("open"));
}

TEST_F(LogConnectionTest, IsLetGoAfterItWasIdleAndMadeAnewAtTheNextWork) {
  OpenAndFinish();
  queue_.RunFor(kAlmost);
  EXPECT_THAT(transport_.Take(), IsEmpty());
  queue_.RunFor(milliseconds(1));
  EXPECT_THAT(transport_.Take(), ElementsAre("close"));
  queue_.RunFor(seconds(600));
  EXPECT_THAT(transport_.Take(), IsEmpty());
  connection_.OnWork(true);
  EXPECT_THAT(transport_.Take(), ElementsAre("open")) << "without waiting";
}

TEST_F(LogConnectionTest, WorkStartsTheIdleTimeAnew) {
  OpenAndFinish();
  queue_.RunFor(kAlmost);
  connection_.OnWork(true);
  queue_.RunFor(seconds(600));
  connection_.OnWork(false);
  queue_.RunFor(kAlmost);
  EXPECT_THAT(transport_.Take(), IsEmpty());
  queue_.RunFor(milliseconds(1));
  EXPECT_THAT(transport_.Take(), ElementsAre("close"));
}

TEST_F(LogConnectionTest, WorkInTheMomentOfClosingIsNotLost) {
  OpenAndFinish();
  // Both are due in the same moment, in either order.
  queue_.Add(LogConnection::kIdle, [this] { connection_.OnWork(true); });
  queue_.RunFor(LogConnection::kIdle);
  EXPECT_TRUE(connection_.is_open());
  EXPECT_THAT(transport_.Take(), ElementsAre("close", "open"));
  queue_.Add(LogConnection::kIdle, [this] { connection_.OnWork(true); });
  connection_.OnWork(false);
  queue_.RunFor(LogConnection::kIdle);
  EXPECT_TRUE(connection_.is_open());
  EXPECT_THAT(transport_.Take(), IsEmpty());
}

TEST_F(LogConnectionTest, IsMadeAgainAfterAPauseWhenItBreaksUnderWork) {
  connection_.OnSession();
  connection_.OnWork(true);
  connection_.OnEnded();
  EXPECT_THAT(transport_.Take(), ElementsAre("open"));
  queue_.RunFor(LogConnection::kBackoff.first);
  EXPECT_THAT(transport_.Take(), ElementsAre("open"));
  // A coordinator that does not answer is asked less and less often.
  for (int i = 0; i < 20; ++i) {
    connection_.OnEnded();
    queue_.RunFor(LogConnection::kBackoff.most);
  }
  transport_.Take();
  connection_.OnEnded();
  queue_.RunFor(LogConnection::kBackoff.most / 2 - milliseconds(1));
  EXPECT_THAT(transport_.Take(), IsEmpty());
  queue_.RunFor(LogConnection::kBackoff.most);
  EXPECT_THAT(transport_.Take(), ElementsAre("open"));
  // One that answers, soon.
  connection_.OnAnswered();
  connection_.OnEnded();
  queue_.RunFor(LogConnection::kBackoff.first);
  EXPECT_THAT(transport_.Take(), ElementsAre("open"));
}

TEST_F(LogConnectionTest, IsNotMadeAgainWhenItBreaksWithoutWork) {
  OpenAndFinish();
  connection_.OnEnded();
  queue_.RunFor(seconds(600));
  EXPECT_THAT(transport_.Take(), IsEmpty());
  connection_.OnWork(true);
  EXPECT_THAT(transport_.Take(), ElementsAre("open"));
}

TEST_F(LogConnectionTest, WorkRightAfterABreakWaitsForThePause) {
  OpenAndFinish();
  connection_.OnEnded();
  connection_.OnWork(true);
  EXPECT_THAT(transport_.Take(), IsEmpty());
  queue_.RunFor(LogConnection::kBackoff.first);
  EXPECT_THAT(transport_.Take(), ElementsAre("open"));
}

TEST_F(LogConnectionTest, EndsWithItsSessionAndStartsWithTheNext) {
  connection_.OnSession();
  connection_.OnWork(true);
  connection_.OnSessionLost();
  EXPECT_THAT(transport_.Take(), ElementsAre("open", "close"));
  queue_.RunFor(seconds(600));
  EXPECT_THAT(transport_.Take(), IsEmpty());
  connection_.OnSession();
  EXPECT_THAT(transport_.Take(), ElementsAre("open"));
  connection_.OnSession();
  EXPECT_THAT(transport_.Take(), ElementsAre("close", "open")) << "a session that replaced it";
}

TEST_F(LogConnectionTest, ASessionThatEndsWhileAPauseLastsEndsThePause) {
  connection_.OnSession();
  connection_.OnWork(true);
  connection_.OnEnded();
  connection_.OnSessionLost();
  queue_.RunFor(seconds(600));
  EXPECT_THAT(transport_.Take(), ElementsAre("open"));
}

TEST_F(LogConnectionTest, ASessionThatEndsWhileIdleLeavesNoTimerBehind) {
  OpenAndFinish();
  queue_.RunFor(kAlmost);
  connection_.OnSessionLost();
  connection_.OnWork(true);
  connection_.OnSession();
  queue_.RunFor(seconds(600));
  EXPECT_THAT(transport_.Take(), ElementsAre("close", "open"));
}

TEST_F(LogConnectionTest, TriesAgainWhenItCannotEvenDial) {
  transport_.can_dial = false;
  connection_.OnSession();
  connection_.OnWork(true);
  EXPECT_FALSE(connection_.is_open());
  queue_.RunFor(LogConnection::kBackoff.most);
  EXPECT_THAT(transport_.Take(), ElementsAre("cannot", "cannot"));
  transport_.can_dial = true;
  queue_.RunFor(LogConnection::kBackoff.most);
  EXPECT_THAT(transport_.Take(), ElementsAre("open"));
}

}  // namespace
}  // namespace muster
