#include "common/io/service_notify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/notify_socket.h"
#include "tests/testing/sim_executor.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using std::chrono::seconds;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class Notify : public ::testing::Test {
 protected:
  TempFolder folder_;
  const std::string path_ = folder_.path() + "/notify";
  testing::NotifySocket manager_{path_};
  testing::SimQueue queue_;
  testing::SimExecutor loop_{queue_};
};

TEST_F(Notify, SaysReadyFeedsTheWatchdogAndSaysThatItStops) {
  {
    ServiceNotify notify(loop_, {.socket = path_, .watchdog = seconds(30)});
    EXPECT_THAT(manager_.Heard(), IsEmpty());
    notify.Ready([] { return "all well"; });
    EXPECT_THAT(manager_.Heard(), ElementsAre("READY=1", "WATCHDOG=1", "STATUS=all well"));
    manager_.Forget();
    queue_.RunFor(seconds(61));
    EXPECT_THAT(manager_.Heard(),
                ElementsAre("WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"));
    manager_.Forget();
    notify.Stopping();
    EXPECT_THAT(manager_.Heard(), ElementsAre("STOPPING=1"));
  }
  manager_.Forget();
  queue_.RunFor(seconds(61));
  EXPECT_THAT(manager_.Heard(), IsEmpty()) << "it is gone";
}

TEST_F(Notify, TellsAStatusThatChangedOnOneLine) {
  std::string status = "one";
  ServiceNotify notify(loop_, {.socket = path_, .watchdog = {}});
  notify.Ready([&] { return status; });
  manager_.Forget();
  queue_.RunFor(seconds(10));
  EXPECT_THAT(manager_.Heard(), IsEmpty());
  status = "two\nREADY=1";
  queue_.RunFor(seconds(10));
  EXPECT_THAT(manager_.Heard(), ElementsAre("STATUS=two READY=1"));
}

TEST_F(Notify, SaysAgainWhatAManagerThatIsBusyDidNotTake) {
  ServiceNotify other(loop_, {.socket = path_, .watchdog = {}});
  // The kernel queues no more than some hundred.
  for (int i = 0; i < 2000; ++i) other.Stopping();
  ServiceNotify notify(loop_, {.socket = path_, .watchdog = {}});
  notify.Ready([] { return "all well"; });
  queue_.RunFor(seconds(1));
  EXPECT_THAT(manager_.Heard(), Each("STOPPING=1"));
  manager_.Forget();
  queue_.RunFor(seconds(10));
  EXPECT_THAT(manager_.Heard(), UnorderedElementsAre("READY=1", "STATUS=all well"));
}

TEST_F(Notify, DoesNothingWithoutAManager) {
  ServiceNotify notify(loop_, {});
  notify.Ready([]() -> std::string {
    ADD_FAILURE() << "nobody wants to know";
    return "";
  });
  EXPECT_FALSE(queue_.RunOne()) << "a timer runs for nothing";
}

TEST(TakenFrom, ReadsWhatIsMeantForThisProcess) {
  const ServiceNotify::Manager manager = ServiceNotify::TakenFrom(
      {"HOME=/", "NOTIFY_SOCKET=/run/n", "WATCHDOG_USEC=30000000", "WATCHDOG_PID=7"}, 7);
  EXPECT_EQ(manager.socket, "/run/n");
  EXPECT_EQ(manager.watchdog, seconds(30));
  const ServiceNotify::Manager others = ServiceNotify::TakenFrom(
      {"NOTIFY_SOCKET=/run/n", "WATCHDOG_USEC=30000000", "WATCHDOG_PID=8"}, 7);
  EXPECT_EQ(others.socket, "");
  EXPECT_EQ(others.watchdog.count(), 0);
  EXPECT_EQ(ServiceNotify::TakenFrom({"WATCHDOG_USEC=3x"}, 7).watchdog.count(), 0);
}

}  // namespace
}  // namespace muster
