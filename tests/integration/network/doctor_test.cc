// `coordinator doctor` and `agent doctor` of the real programs.
#include <sys/stat.h>

#include "tests/integration/network/joined_nodes.h"

namespace muster {
namespace {

using testing::CommandRun;
using ::testing::HasSubstr;
using testing::JoinedNodes;
using testing::WaitUntil;

class Doctor : public JoinedNodes {
 protected:
  std::string listen() const { return "127.0.0.1:" + std::to_string(port()); }
  CommandRun OfCoordinator() {
    return box_.Run({"doctor", "--state-dir", "state", "--socket", "c.sock", "--listen", listen()});
  }
  CommandRun OfAgent(const std::string& state, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"doctor", "--state-dir", state};
    words.insert(words.end(), more.begin(), more.end());
    return Agent(words);
  }
};

TEST_F(Doctor, FindsNothingWrongWithAClusterThatWorks) {
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  const std::string token = Token(2);
  EXPECT_EQ(Join("node-1", token).Wait(), 0);
  agents_.push_back(RunAgent("node-1"));
  ASSERT_TRUE(
      WaitUntil([&] { return agents_[0].err().find("session opened") != std::string::npos; }));
  CommandRun coordinator = OfCoordinator();
  EXPECT_EQ(coordinator.Wait(), 0) << coordinator.out();
  EXPECT_THAT(coordinator.out(), HasSubstr("is served by this cluster"));
  CommandRun agent = OfAgent("node-1", {"-o", "json"});
  EXPECT_EQ(agent.Wait(), 0) << agent.out();
  const auto json = nlohmann::json::parse(agent.out(), nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << agent.out();
  EXPECT_TRUE(json["ok"]);
  EXPECT_GE(json["checks"].size(), 12u);
  // It has changed nothing: the agent is in contact still.
  EXPECT_THAT(Nodes(), HasSubstr("alive"));
}

TEST_F(Doctor, SaysWhatIsWrongAndEndsWithOne) {
  CommandRun nothing = OfAgent("node-1");
  EXPECT_EQ(nothing.Wait(), 1);
  EXPECT_THAT(nothing.out(), HasSubstr("FAIL  state"));
  EXPECT_EQ(Init().Wait(), 0);
  Serve();
  const std::string token = Token(1);
  EXPECT_EQ(Join("node-1", token).Wait(), 0);
  EXPECT_EQ(box_.Run({"revoke", "agent", "node-1"}).Wait(), 0);
  CommandRun revoked = OfAgent("node-1");
  EXPECT_EQ(revoked.Wait(), 1);
  EXPECT_THAT(revoked.out(), HasSubstr("was revoked"));
  coordinator_[0].Send(SIGTERM);
  coordinator_[0].Wait();
  CommandRun alone = OfAgent("node-1");
  EXPECT_EQ(alone.Wait(), 1);
  EXPECT_THAT(alone.out(), HasSubstr("FAIL  connect"));
  CommandRun stopped = OfCoordinator();
  EXPECT_EQ(stopped.Wait(), 0) << "it may be started: " << stopped.out();
  EXPECT_THAT(stopped.out(), HasSubstr("warn  service"));
  // Somebody has changed the audit log, and others may read the key of the authority.
  std::string audit = box_.Read("state/trust/audit.jsonl");
  audit[audit.find("join") + 1] = 'x';
  box_.Write("state/trust/audit.jsonl", audit);
  ASSERT_EQ(::chmod(box_.Path("state/trust/ca.key").c_str(), 0644), 0);
  CommandRun changed = OfCoordinator();
  EXPECT_EQ(changed.Wait(), 1);
  EXPECT_THAT(changed.out(), HasSubstr("FAIL  audit"));
  EXPECT_THAT(changed.out(), HasSubstr("ca.key: others may read this key"));
  EXPECT_EQ(OfAgent("node-1", {"--nonsense"}).Wait(), 2);
}

}  // namespace
}  // namespace muster
