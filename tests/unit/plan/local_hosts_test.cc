#include "coordinator/plan/local_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/plan/host_match.h"
#include "tests/unit/plan/plan_fixtures.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> Agents(const v1::JobSpec& spec, const std::vector<std::string>& own = {}) {
  std::vector<std::string> out;
  for (const LocalAgent& agent : PlanLocalAgents(spec.hosts(), own)) {
    out.push_back(agent.node_id + ":" + std::to_string(agent.slots));
  }
  return out;
}

TEST(PlanLocalAgents, StartsOnePerNamedHostWithTheSlotsItNeeds) {
  v1::JobSpec spec;
  AddHost(spec, "node-1", 2);
  AddHost(spec, "node-2.example.net", 8, {5, 7});
  AddHost(spec, "node-3", 0);
  AddHost(spec, "node-4", 0, {3});
  EXPECT_THAT(Agents(spec),
              ElementsAre("node-1:2", "node-2.example.net:8", "node-3:8", "node-4:4"));
}

TEST(PlanLocalAgents, StartsOneForAnEntryThatIsThisMachine) {
  for (const char* host : {"localhost", "127.0.0.1", "::1", "192.0.2.9"}) {
    v1::JobSpec spec;
    AddHost(spec, host, 3);
    EXPECT_THAT(Agents(spec, {"192.0.2.9"}), ElementsAre(std::string(host) + ":3"));
  }
}

TEST(PlanLocalAgents, LeavesOutOtherMachines) {
  v1::JobSpec spec;
  AddHost(spec, "node-1", 1);
  AddHost(spec, "192.0.2.77", 1);
  AddHost(spec, "2001:db8::7", 1);
  EXPECT_THAT(Agents(spec, {"192.0.2.9"}), ElementsAre("node-1:1"));
}

TEST(PlanLocalAgents, LeavesThisMachineOutWhenItIsThereAlready) {
  for (const char* alias : {"localhost", "127.0.0.1", "192.0.2.9"}) {
    v1::JobSpec spec;
    AddHost(spec, alias, 2);
    AddHost(spec, "node-1", 2);
    EXPECT_THAT(Agents(spec, {"192.0.2.9"}), ElementsAre("node-1:2"));
    // The agent then answers to both entries, which is refused.
    NodeView node{NodeId("node-1"), {}};
    node.facts.add_addresses("127.0.0.1");
    node.facts.add_addresses("192.0.2.9");
    EXPECT_THAT(MatchHosts(spec.hosts(), {{node}}).errors, SizeIs(1)) << alias;
  }
}

TEST(PlanLocalAgents, CountsTwoSpellingsOfThisMachineOnce) {
  v1::JobSpec spec;
  AddHost(spec, "localhost", 2);
  AddHost(spec, "127.0.0.1", 2);
  EXPECT_THAT(Agents(spec), ElementsAre("localhost:2"));
}

TEST(PlanLocalAgents, StartsNoneForNoHosts) {
  EXPECT_THAT(PlanLocalAgents(v1::JobSpec().hosts(), {}), IsEmpty());
}

}  // namespace
}  // namespace muster
