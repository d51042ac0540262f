// Certificates that live for seconds, and an authority that is replaced, under running jobs.
#include <filesystem>

#include "tests/integration/network/joined_nodes.h"

namespace muster {
namespace {

using testing::CommandRun;
using ::testing::HasSubstr;
using testing::JoinedNodes;
using testing::Seconds;
using testing::WaitUntil;

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class Renewals : public JoinedNodes {
 protected:
  void StartCluster(const std::string& life) {
    EXPECT_EQ(Init(life).Wait(), 0);
    Serve();
    const std::string token = Token(2);
    for (const char* name : {"node-1", "node-2"}) EXPECT_EQ(Join(name, token).Wait(), 0);
    StartAgents();
  }
  // A job whose ranks count until there is a file `go`.
  CommandRun StartCounting() {
    box_.Write("job.yaml",
               "hostfile: hosts\ncommand: [sh, -c, 'i=0; until [ -e go ]; do i=$((i+1)); "
               "echo line $i; sleep 0.05; done; echo last $i']\n");
    CommandRun job = box_.Start({"submit", "--log-dir", "logs", "job.yaml"});
    EXPECT_TRUE(WaitUntil([&] { return Count(job.out(), "line 1\n") == 4; }, Seconds(60)))
        << job.err();
    return job;
  }
  // It ends with 0, and every line of every rank is there once and in order.
  void ExpectNothingLost(CommandRun& job) {
    box_.Write("go", "");
    EXPECT_EQ(job.Wait(Seconds(60)), 0) << job.err();
    for (int rank = 0; rank < 4; ++rank) {
      const std::string log = box_.Read("logs/latest/rank_" + std::to_string(rank) + ".log");
      std::string expected;
      int lines = 0;
      while (log.find("line " + std::to_string(lines + 1) + "\n") != std::string::npos) {
        expected += "line " + std::to_string(++lines) + "\n";
      }
      expected += "last " + std::to_string(lines) + "\n";
      EXPECT_GT(lines, 1);
      EXPECT_EQ(log, expected);
    }
    EXPECT_EQ(job.err().find("restarted"), std::string::npos) << job.err();
  }
  std::string Phase() { return Json({"ca", "show", "-o", "json"}).value("phase", ""); }
  bool AwaitPhase(const std::string& phase) {
    return WaitUntil([&] { return Phase() == phase; }, Seconds(60));
  }
};

TEST_F(Renewals, AJobRunsAcrossSeveralOfThem) {
  StartCluster("10s");
  CommandRun job = StartCounting();
  for (CommandRun& agent : agents_) {
    EXPECT_TRUE(
        WaitUntil([&] { return Count(agent.err(), "certificate renewed") >= 2; }, Seconds(60)))
        << agent.err();
    EXPECT_TRUE(WaitUntil([&] { return Count(agent.err(), "session opened") >= 2; }, Seconds(60)))
        << agent.err();
  }
  EXPECT_TRUE(WaitUntil([&] {
    return Count(coordinator_[0].err(), "the certificate of the coordinator was renewed") >= 2;
  })) << coordinator_[0].err();
  ExpectNothingLost(job);
  // The join port has the new certificate too.
  const std::string token = Token(1);
  EXPECT_EQ(Join("node-3", token).Wait(), 0);
}

TEST_F(Renewals, ANodeComesBackWithACertificateThatHasEnded) {
  StartCluster("10s");
  CommandRun job = StartCounting();
  // The agents are away until their certificates have ended; the ranks do not notice.
  for (CommandRun& agent : agents_) {
    agent.Send(SIGKILL);
    agent.Wait();
  }
  agents_.clear();
  EXPECT_TRUE(WaitUntil(
      [&] {
        const std::string members = box_.Run({"members"}).out();
        return Count(members, "ended") == 2;
      },
      Seconds(60)));
  EXPECT_EQ(box_.Run({"revoke", "agent", "node-2"}).Wait(), 0);
  StartAgents();
  EXPECT_TRUE(WaitUntil([&] { return Count(agents_[0].err(), "session opened") > 0; }))
      << agents_[0].err();
  EXPECT_TRUE(WaitUntil([&] { return Count(agents_[1].err(), "was revoked") > 0; }))
      << agents_[1].err();
  EXPECT_EQ(Count(agents_[1].err(), "session opened"), 0u);
  box_.Write("go", "");
  EXPECT_EQ(job.Wait(Seconds(60)), 121) << "node-2 is shut out for good";
}

TEST_F(Renewals, AJobRunsAcrossAChangeOfTheAuthority) {
  StartCluster("40s");
  // A node that is off: it holds up the change, so that each step can be looked at.
  EXPECT_EQ(Join("node-3", Token(1)).Wait(), 0);
  const std::string early = Token(2);
  const std::string before = Json({"ca", "show", "-o", "json"})["certificates"][0]["key_sha256"];
  CommandRun job = StartCounting();
  CommandRun rotate = box_.Run({"ca", "rotate"});
  EXPECT_EQ(rotate.Wait(), 0) << rotate.err();
  EXPECT_THAT(rotate.out(), HasSubstr("step 1 of 3"));
  KillAndServe();
  EXPECT_EQ(Phase(), "trust-both");
  EXPECT_TRUE(WaitUntil([&] {
    const auto shown = Json({"ca", "show", "-o", "json"});
    return shown["awaited"].size() == 1 && shown["awaited"][0]["name"] == "node-3";
  })) << box_.Run({"ca", "show"}).out();
  CommandRun twice = box_.Run({"ca", "rotate"});
  EXPECT_NE(twice.Wait(), 0);
  EXPECT_THAT(twice.err(), HasSubstr("waits for agent node-3"));
  EXPECT_EQ(Join("node-4", early).Wait(), 0) << "a token from before";
  EXPECT_EQ(box_.Run({"revoke", "agent", "node-4"}).Wait(), 0) << "it has no agent that follows";
  agents_.push_back(RunAgent("node-3"));
  EXPECT_TRUE(WaitUntil([&] { return Phase() != "trust-both"; }, Seconds(60)))
      << box_.Run({"ca", "show"}).out();
  KillAndServe();
  ASSERT_TRUE(AwaitPhase("steady")) << box_.Run({"ca", "show"}).out();
  KillAndServe();
  const auto after = Json({"ca", "show", "-o", "json"});
  EXPECT_EQ(after["certificates"].size(), 1u);
  EXPECT_NE(after["certificates"][0]["key_sha256"], before);
  ExpectNothingLost(job);
  CommandRun late = Join("node-5", early);
  EXPECT_EQ(late.Wait(), 1);
  EXPECT_THAT(late.err(), HasSubstr("from before its authority was changed"));
  EXPECT_EQ(Join("node-5", Token(1)).Wait(), 0);
}

TEST_F(Renewals, CommandsOfAUserLetAChangeOfTheAuthorityGoOn) {
  EXPECT_EQ(Init("40s").Wait(), 0);
  Serve();
  CommandRun added = box_.Run({"user", "add", "alice", "-o", "json"});
  EXPECT_EQ(added.Wait(), 0) << added.err();
  const auto token = nlohmann::json::parse(added.out());
  address_ = token["addresses"][0];
  box_.Set("XDG_CONFIG_HOME", box_.Path("config"));
  CommandRun joined = box_.Run({"join", address_, std::string(token["token"])});
  EXPECT_EQ(joined.Wait(), 0) << joined.err();
  EXPECT_EQ(box_.Run({"ca", "rotate"}).Wait(), 0);
  const auto awaits_alice = [&] {
    const auto shown = Json({"ca", "show", "-o", "json"});
    return shown["awaited"].size() == 1 && shown["awaited"][0]["name"] == "alice";
  };
  const auto use = [&] {
    // As if the last look had been a while ago.
    std::filesystem::remove(box_.Path("config/muster/trust/renewal"));
    EXPECT_EQ(box_.Run({"list", "--server", address_}).Wait(), 0);
  };
  EXPECT_TRUE(awaits_alice());
  use();
  ASSERT_TRUE(AwaitPhase("issue-new")) << box_.Run({"ca", "show"}).out();
  EXPECT_TRUE(awaits_alice());
  use();
  ASSERT_TRUE(AwaitPhase("steady")) << box_.Run({"ca", "show"}).out();
  // With what it has now.
  use();
  EXPECT_EQ(box_.Read("config/muster/trust/renewal"), "");
}

}  // namespace
}  // namespace muster
