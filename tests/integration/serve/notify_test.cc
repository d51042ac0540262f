// What a service manager hears from the real daemons.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/sandbox/cluster.h"
#include "tests/testing/notify_socket.h"

namespace muster {
namespace {

using testing::Cluster;
using testing::NotifySocket;
using testing::WaitUntil;

class Notification : public ::testing::Test {
 protected:
  // A manager for the daemon that is started next.
  void Manage(const std::string& socket) {
    box_.Set("NOTIFY_SOCKET", box_.Path(socket));
    box_.Set("WATCHDOG_USEC", "200000");
  }
  static bool HasStatus(NotifySocket& manager, const std::string& text) {
    return manager.WaitFor([&](const std::string& one) {
      return one.starts_with("STATUS=") && one.find(text) != std::string::npos;
    });
  }
  // Told anew, not at some time before.
  static bool IsFed(NotifySocket& manager) {
    manager.Forget();
    return manager.WaitFor("WATCHDOG=1");
  }

  Cluster cluster_{1, 1};
  testing::Sandbox& box_ = cluster_.box();
};

TEST_F(Notification, ComesFromBothDaemonsFromTheirLoops) {
  NotifySocket of_coordinator(box_.Path("n1"));
  NotifySocket of_agent(box_.Path("n2"));
  Manage("n1");
  cluster_.StartCoordinator();
  EXPECT_TRUE(of_coordinator.WaitFor("READY=1")) << cluster_.coordinator().err();
  EXPECT_TRUE(HasStatus(of_coordinator, "0 of 0 nodes in contact, 0 jobs"));
  Manage("n2");
  cluster_.StartAgent(1);
  EXPECT_TRUE(of_agent.WaitFor("READY=1")) << cluster_.agent_run(1).err();
  EXPECT_TRUE(HasStatus(of_agent, "node-1: 0 ranks running, in contact"));
  EXPECT_TRUE(HasStatus(of_coordinator, "1 of 1 nodes in contact, 0 jobs"));
  box_.Unset("NOTIFY_SOCKET");
  box_.Unset("WATCHDOG_USEC");
  box_.Write("job.yaml",
             "hostfile: hosts\ncommand: [sh, -c, 'until [ -e go ]; do sleep 0.05; done']\n");
  const std::string job = cluster_.Submit();
  EXPECT_TRUE(HasStatus(of_agent, "node-1: 1 rank running"));
  EXPECT_TRUE(HasStatus(of_coordinator, "1 job"));

  // A process that stands still feeds nobody.
  EXPECT_TRUE(IsFed(of_agent));
  EXPECT_TRUE(IsFed(of_coordinator));
  cluster_.agent_run(1).Send(SIGSTOP);
  EXPECT_TRUE(WaitUntil([&] {
    of_agent.Forget();
    return !of_agent.WaitFor([](const std::string&) { return true; }, std::chrono::seconds(1));
  }));
  cluster_.agent_run(1).Send(SIGCONT);
  EXPECT_TRUE(IsFed(of_agent));

  box_.Write("go", "");
  EXPECT_EQ(cluster_.WaitJob(job), 0);
  // The queue of the socket is short, and what does not fit into it is not said again.
  of_coordinator.Heard();
  of_agent.Heard();
  cluster_.KillCoordinator(SIGTERM);
  EXPECT_TRUE(of_coordinator.WaitFor("STOPPING=1"));
  EXPECT_TRUE(HasStatus(of_agent, "no coordinator: "));
  cluster_.KillAgent(1, SIGTERM);
  EXPECT_TRUE(of_agent.WaitFor("STOPPING=1"));
}

}  // namespace
}  // namespace muster
