// A cluster over the network, from nothing, with the real programs on the loopback interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using testing::CommandRun;
using ::testing::HasSubstr;
using testing::Sandbox;
using testing::Seconds;
using testing::WaitUntil;

class JoinedNodes : public ::testing::Test {
 protected:
  JoinedNodes() {
    box_.Hosts(2, 2);
    box_.Unset("MUSTER_LOCAL");
    box_.Set("MUSTER_SERVER", "unix:" + box_.Path("c.sock"));
  }

  CommandRun Init() { return box_.Run({"init", "--state-dir", "state", "--host", "127.0.0.1"}); }
  // Serves on `port` of the loopback interface; 0: any.
  CommandRun& Serve(int port = 0) {
    coordinator_.clear();
    coordinator_.push_back(box_.Start({"serve", "--state-dir", "state", "--socket", "c.sock",
                                       "--listen", "127.0.0.1:" + std::to_string(port)}));
    EXPECT_TRUE(WaitUntil([&] {
      return coordinator_[0].err().find("coordinator serves") != std::string::npos;
    })) << coordinator_[0].err();
    return coordinator_[0];
  }
  // A new token; remembers where to join.
  std::string Token(int nodes) {
    CommandRun run = box_.Run({"token", "create", "--nodes", std::to_string(nodes), "-o", "json"});
    EXPECT_EQ(run.Wait(), 0) << run.err();
    const auto token = nlohmann::json::parse(run.out());
    address_ = token["addresses"][0];
    return token["token"];
  }
  int port() const { return std::stoi(address_.substr(address_.rfind(':') + 1)); }
  CommandRun Agent(std::vector<std::string> words) {
    return box_.StartProgram(Sandbox::Programs() + "/agent", std::move(words));
  }
  CommandRun Join(const std::string& name, const std::string& token) {
    return Agent({"join", address_, token, "--node-id", name, "--state-dir", name});
  }
  void StartAgents() {
    for (const std::string name : {"node-1", "node-2"}) {
      agents_.push_back(Agent({"run", "--state-dir", name, "--slots", "2", "--allow-root"}));
    }
  }
  std::string Nodes() { return box_.Run({"nodes"}).out(); }

  Sandbox box_;
  std::vector<CommandRun> coordinator_;
  std::vector<CommandRun> agents_;
  std::string address_;
};

TEST_F(JoinedNodes, FromNothingToAJob) {
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  const std::string token = Token(2);
  EXPECT_EQ(Join("node-1", token).Wait(), 0);
  // Where others cannot see it.
  box_.Write("token", token + "\n");
  CommandRun second = Agent(
      {"join", address_, "--token-file", "token", "--node-id", "node-2", "--state-dir", "node-2"});
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_THAT(second.out(), HasSubstr("node-2 belongs to cluster"));
  StartAgents();
  box_.Write("job.yaml", "hostfile: hosts\ncommand: [sh, -c, 'echo rank $RANK of $WORLD_SIZE']\n");
  CommandRun job = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(job.Wait(), 0) << job.err();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(job.out(), HasSubstr("rank " + std::to_string(rank) + " of 4\n"));
  }
  const std::string members = box_.Run({"members"}).out();
  EXPECT_THAT(members, HasSubstr("node-1"));
  EXPECT_THAT(members, HasSubstr("node-2"));
}

TEST_F(JoinedNodes, TheCoordinatorIsKilledAndOneMemberIsShutOut) {
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  const std::string token = Token(2);
  for (const char* name : {"node-1", "node-2"}) EXPECT_EQ(Join(name, token).Wait(), 0);
  StartAgents();
  box_.Write("job.yaml",
             "hostfile: hosts\ncommand: [sh, -c, 'echo up; until [ -e go ]; do sleep 0.05; done; "
             "echo end of $RANK']\n");
  CommandRun job = box_.Start({"submit", "job.yaml"});
  ASSERT_TRUE(WaitUntil([&] { return job.out().find("up\n") != std::string::npos; })) << job.err();
  coordinator_[0].Send(SIGKILL);
  coordinator_[0].Wait();
  Serve(port());
  box_.Write("go", "");
  EXPECT_EQ(job.Wait(Seconds(60)), 0) << job.err();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(job.out(), HasSubstr("end of " + std::to_string(rank) + "\n"));
  }

  EXPECT_EQ(box_.Run({"revoke", "agent", "node-2"}).Wait(), 0);
  EXPECT_TRUE(WaitUntil([&] { return Nodes().find("suspect") != std::string::npos; })) << Nodes();
  CommandRun again = Join("node-2", Token(1));
  EXPECT_EQ(again.Wait(), 1);
  EXPECT_THAT(again.err(), HasSubstr("node-2"));
}

TEST_F(JoinedNodes, SaysWhatIsMissing) {
  CommandRun run = Agent({"run", "--state-dir", "node-1"});
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.err(), HasSubstr("agent join HOST:PORT TOKEN"));
  EXPECT_EQ(Init().Wait(), 0);
  CommandRun twice = Init();
  EXPECT_NE(twice.Wait(), 0);
  EXPECT_THAT(twice.err(), HasSubstr("state/trust"));
  Serve();
  Token(1);
  CommandRun typo = Join("node-1", "tk1.what");
  EXPECT_EQ(typo.Wait(), 2);
  EXPECT_THAT(typo.err(), HasSubstr("token"));
}

TEST_F(JoinedNodes, RanksDoNotRunAsRootUnlessTheNodeSaysSo) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root has this choice";
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  EXPECT_EQ(Join("node-1", Token(1)).Wait(), 0);
  CommandRun run = Agent({"run", "--state-dir", "node-1"});
  EXPECT_EQ(run.Wait(), 1);
  EXPECT_THAT(run.err(), HasSubstr("--allow-root"));
}

TEST_F(JoinedNodes, ACoordinatorWithoutAClusterIsNotOnTheNetwork) {
  CommandRun& coordinator = Serve();
  EXPECT_THAT(coordinator.err(), HasSubstr("network=\"\""));
  CommandRun token = box_.Run({"token", "create"});
  EXPECT_NE(token.Wait(), 0);
  EXPECT_THAT(token.err(), HasSubstr("coordinator init"));
}

}  // namespace
}  // namespace muster
