#include "coordinator/plan/host_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;

NodeView View(const std::string& id, const std::string& hostname = "", const std::string& fqdn = "",
              const std::vector<std::string>& addresses = {}) {
  NodeView node{NodeId(id), {}};
  node.facts.set_hostname(hostname);
  node.facts.set_fqdn(fqdn);
  for (const std::string& address : addresses) node.facts.add_addresses(address);
  return node;
}

HostMatches Match(const std::vector<std::string>& hosts, const std::vector<NodeView>& nodes) {
  v1::JobSpec spec;
  for (const std::string& host : hosts) {
    v1::HostEntry& entry = *spec.add_hosts();
    entry.set_host(host);
    entry.set_source("hosts:" + std::to_string(spec.hosts_size()));
  }
  return MatchHosts(spec.hosts(), nodes);
}

TEST(MatchHosts, FindsANodeByEverythingItReports) {
  const std::vector<NodeView> nodes = {
      View("other"),
      View("rack1-n3", "gaudi3", "gaudi3.example.net", {"192.0.2.3", "2001:db8::3"})};
  for (const char* host : {"rack1-n3", "gaudi3", "gaudi3.example.net", "192.0.2.3", "2001:db8::3",
                           "2001:DB8:0:0::3", "[2001:db8::3]", "GAUDI3", "Gaudi3.Example.NET"}) {
    const HostMatches matches = Match({host}, nodes);
    EXPECT_THAT(matches.node, ElementsAre(Optional(1u))) << host;
    EXPECT_TRUE(matches.complete()) << host;
  }
}

TEST(MatchHosts, ReportsWhatNobodyAnswersTo) {
  const HostMatches matches = Match({"a", "gone", "b", "198.51.100.1"}, {View("a"), View("b")});
  EXPECT_THAT(matches.missing, ElementsAre(1u, 3u));
  EXPECT_THAT(matches.errors, IsEmpty());
  EXPECT_FALSE(matches.complete());
  EXPECT_THAT(matches.node[2], Optional(1u));
}

TEST(MatchHosts, KeepsNamesWhole) {
  const std::vector<NodeView> nodes = {View("worker.1.example.net", "worker"),
                                       View("worker.2.example.net", "worker2")};
  const HostMatches matches = Match({"worker.2.example.net", "worker.1.example.net"}, nodes);
  EXPECT_THAT(matches.node, ElementsAre(Optional(1u), Optional(0u)));
  EXPECT_THAT(Match({"worker.1"}, nodes).missing, ElementsAre(0u));
}

TEST(MatchHosts, PrefersTheNodeIdOverOtherNames) {
  const HostMatches matches = Match({"web"}, {View("node-9", "web"), View("web", "node-9")});
  EXPECT_THAT(matches.node, ElementsAre(Optional(1u)));
}

TEST(MatchHosts, PrefersExactCaseOverAnotherCase) {
  const HostMatches matches = Match({"A", "a"}, {View("a"), View("A")});
  EXPECT_THAT(matches.node, ElementsAre(Optional(1u), Optional(0u)));
  EXPECT_TRUE(matches.complete());
}

TEST(MatchHosts, RefusesAnEntryThatSeveralNodesAnswerTo) {
  const HostMatches matches =
      Match({"localhost"}, {View("n1", "localhost"), View("n2", "localhost"), View("n3", "x")});
  EXPECT_THAT(matches.node, ElementsAre(std::nullopt));
  EXPECT_THAT(matches.missing, IsEmpty());
  EXPECT_THAT(matches.errors, ElementsAre(AllOf(HasSubstr("hosts:1"), HasSubstr("host name"),
                                                HasSubstr("n1, n2"), Not(HasSubstr("n3")))));
}

TEST(MatchHosts, RefusesOneMachineUnderTwoNames) {
  const HostMatches matches = Match({"node-1", "node-2", "192.0.2.1"},
                                    {View("node-1", "", "", {"192.0.2.1"}), View("node-2")});
  EXPECT_THAT(matches.errors, ElementsAre(AllOf(HasSubstr("node-1 (hosts:1), 192.0.2.1 (hosts:3)"),
                                                HasSubstr("one machine, node node-1"))));
  EXPECT_THAT(matches.node, ElementsAre(std::nullopt, Optional(1u), std::nullopt));
}

TEST(MatchHosts, TakesAllLoopbackAddressesForOne) {
  const std::vector<NodeView> nodes = {View("node-1", "box", "", {"127.0.0.1"})};
  for (const char* host : {"127.0.0.1", "127.0.1.1", "::1", "localhost", "LocalHost"}) {
    EXPECT_THAT(Match({host}, nodes).node, ElementsAre(Optional(0u))) << host;
    EXPECT_THAT(Match({"node-1", host}, nodes).errors, ElementsAre(HasSubstr(host))) << host;
  }
}

TEST(MatchHosts, ShortensLongLists) {
  std::vector<NodeView> nodes;
  for (int i = 0; i < 100; ++i) nodes.push_back(View("n" + std::to_string(i), "same"));
  const HostMatches matches = Match({"same"}, nodes);
  EXPECT_THAT(matches.errors,
              ElementsAre(AllOf(HasSubstr("n7 and 92 more"), Not(HasSubstr("n8")))));
}

TEST(MatchHosts, IgnoresEmptyFactsAndRepeatedAddresses) {
  EXPECT_THAT(Match({""}, {View("a"), View("b")}).missing, ElementsAre(0u));
  const HostMatches matches = Match({"192.0.2.1"}, {View("a", "", "", {"192.0.2.1", "192.0.2.1"})});
  EXPECT_THAT(matches.node, ElementsAre(Optional(0u)));
}

TEST(MatchHosts, MatchesAThousandHosts) {
  std::vector<NodeView> nodes;
  std::vector<std::string> hosts;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "host-" + std::to_string(i);
    nodes.push_back(View("id" + std::to_string(i), name, name + ".example.net"));
    hosts.push_back(name + ".example.net");
  }
  const HostMatches matches = Match(hosts, nodes);
  EXPECT_TRUE(matches.complete());
  EXPECT_EQ(matches.node[999], 999u);
}

}  // namespace
}  // namespace muster
