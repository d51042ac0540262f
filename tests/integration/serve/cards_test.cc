// A coordinator and a node with simulated cards: jobs that share them, and what is shown of them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/integration/sandbox/cluster.h"
#include "tests/testing/sim_node.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::Cluster;
using testing::CommandRun;
using ::testing::HasSubstr;
using testing::Sandbox;
using testing::WaitUntil;

class ServeCards : public ::testing::Test {
 protected:
  ServeCards() : cluster_(1, 4), box_(cluster_.box()), node_(box_.Path("sim")) {
    node_.AddCards({7, 6, 5, 4, 3, 2, 1, 0});
    box_.Set("MUSTER_SYSROOT", node_.root());
    box_.Write("r.py", R"(import os, sys, time
name = sys.argv[1]
if os.environ['RANK'] == '0':
    with open('written.' + name, 'w') as file:
        file.write(os.environ['HABANA_VISIBLE_MODULES'])
    os.rename('written.' + name, 'up.' + name)
while not os.path.exists('go.' + name):
    time.sleep(0.01)
)");
    for (const char* name : {"a", "b", "c"}) {
      box_.Write(
          std::string(name) + ".yaml",
          "name: " + std::string(name) + "\nhostfile: hosts\nscript: r.py\nargs: [" + name + "]\n");
    }
  }
  bool Shows(const std::string& text) {
    return WaitUntil([&] {
      return box_.Run({"nodes", "show", "node-1"}).out().find(text) != std::string::npos;
    });
  }

  Cluster cluster_;
  Sandbox& box_;
  SimNode node_;
};

TEST_F(ServeCards, HalfNodeJobsGetCardsOfTheirOwn) {
  cluster_.Start();
  const std::string a = cluster_.Submit("a.yaml");
  ASSERT_TRUE(box_.WaitFor("up.a"));
  const std::string b = cluster_.Submit("b.yaml");
  ASSERT_TRUE(box_.WaitFor("up.b"));
  EXPECT_EQ(box_.Read("up.a"), "0,1,2,3");
  EXPECT_EQ(box_.Read("up.b"), "4,5,6,7");
  CommandRun third = box_.Run({"submit", "c.yaml"});
  EXPECT_EQ(third.Wait(), 120);
  EXPECT_THAT(third.err(), AllOf(HasSubstr("node-1"), HasSubstr("cards 0-3: "),
                                 HasSubstr("job " + a + " (a)"), HasSubstr("job " + b + " (b)")));
  // A new agent knows what is leased.
  cluster_.KillAgent(1);
  cluster_.StartAgent(1);
  cluster_.AwaitNodes(1);
  EXPECT_EQ(box_.Run({"submit", "c.yaml"}).Wait(), 120);
  box_.Write("go.a", "");
  EXPECT_EQ(cluster_.WaitJob(a), 0);
  const std::string c = cluster_.Submit("c.yaml");
  ASSERT_TRUE(box_.WaitFor("up.c"));
  EXPECT_EQ(box_.Read("up.c"), "0,1,2,3");
  box_.Write("go.b", "");
  box_.Write("go.c", "");
  EXPECT_EQ(cluster_.WaitJob(b), 0);
  EXPECT_EQ(cluster_.WaitJob(c), 0);
}

TEST_F(ServeCards, AreFoundWhenTheDriverIsLoadedLater) {
  const std::string away = box_.Path("away");
  std::filesystem::rename(node_.root() + "/sys/class", away);
  cluster_.Start();
  EXPECT_THAT(box_.Run({"nodes", "-o", "json"}).out(), HasSubstr("\"slots_are_cards\": false"));
  std::filesystem::rename(away, node_.root() + "/sys/class");
  EXPECT_TRUE(WaitUntil(
      [&] {
        return box_.Run({"nodes", "-o", "json"}).out().find("\"slots_are_cards\": true") !=
               std::string::npos;
      },
      testing::Seconds(60)));
  box_.Write("go.a", "");
  EXPECT_EQ(cluster_.WaitJob(cluster_.Submit("a.yaml")), 0);
  EXPECT_EQ(box_.Read("up.a"), "0,1,2,3");
}

TEST_F(ServeCards, AreShownWithTheirStateAndTheirHolder) {
  node_.SetStatus(3, "In reset");
  node_.SetPort(0, 22, "down");
  node_.SetModule(5, "x");
  const int card = ::open(node_.NodePath(0).c_str(), O_RDONLY);
  CommandRun holder = box_.StartProgram("/bin/sleep", {"1000"}, Sandbox::Stdout::kFile, card);
  ::close(card);
  cluster_.Start();
  EXPECT_TRUE(Shows("pid " + std::to_string(holder.pid())));
  const std::string shown = box_.Run({"nodes", "show", "node-1"}).out();
  EXPECT_THAT(shown, AllOf(HasSubstr("In reset"), HasSubstr("23 up, 1 down"),
                           HasSubstr(SimNode::PciAddress(3)), HasSubstr("GAUDI2 Simulator"),
                           HasSubstr("problem: the card of index 5 at " + SimNode::PciAddress(5))));
  const std::string json = box_.Run({"nodes", "show", "node-1", "-o", "json"}).out();
  EXPECT_THAT(json, AllOf(HasSubstr("\"slots_are_cards\": true"), HasSubstr("\"ports_down\": 1"),
                          HasSubstr("\"utilization_percent\": null")));
  EXPECT_EQ(box_.Run({"nodes", "show", "node-9"}).Wait(), 2);
}

}  // namespace
}  // namespace muster
