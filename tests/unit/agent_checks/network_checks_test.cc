// Which interfaces variables may name.
#include <gmock/gmock.h>

#include "tests/unit/agent_checks/check_world.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class NetworkChecksTest : public CheckTest {
 protected:
  NetworkChecksTest() {
    AddInterface("lo", "127.0.0.1");
    AddInterface("ens6", "10.0.0.5");
    AddInterface("ens7", "");
    AddInterface("eth0", "192.0.2.3", false);
    AddInterface("acn0", "192.0.2.9", true, "habanalabs_en");
    context_.node_count = 2;
    context_.set_by_job = {"HCCL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"};
  }
  v1::CheckResult With(const std::string& value) {
    context_.env["HCCL_SOCKET_IFNAME"] = value;
    return Run("hccl-interface");
  }
};

TEST_F(NetworkChecksTest, NothingIsSaidWithoutTheVariableAndWithoutCards) {
  EXPECT_EQ(VerdictOf("hccl-interface"), v1::SKIPPED);
  EXPECT_EQ(VerdictOf("gloo-interface"), v1::SKIPPED);
  EXPECT_EQ(VerdictOf("nccl-interface"), v1::SKIPPED);
}

TEST_F(NetworkChecksTest, AnInterfaceThatIsNotThereFailsWithTheNameAndWhatIsThere) {
  const v1::CheckResult result = With("ens32");
  EXPECT_EQ(result.verdict(), v1::FAIL);
  EXPECT_THAT(result.message(),
              AllOf(HasSubstr("HCCL_SOCKET_IFNAME=ens32"), HasSubstr("no interface fits"),
                    HasSubstr("ens6,"), HasSubstr("eth0 (down)")));
  EXPECT_THAT(result.fix(), HasSubstr("node_env"));
}

TEST_F(NetworkChecksTest, WhatTheShellHappensToHaveIsAWarningForRanksWithoutCards) {
  context_.set_by_job.clear();
  EXPECT_EQ(With("ens32").verdict(), v1::WARN);
  context_.cards = 1;
  EXPECT_EQ(With("ens32").verdict(), v1::FAIL);
}

struct IfnameCase {
  const char* value;
  v1::Verdict verdict;
  const char* text;
};

TEST_F(NetworkChecksTest, ValuesOfHccl) {
  const IfnameCase cases[] = {
      {"ens6", v1::PASS, "ens6"},
      // Beginnings of names, any of which will do.
      {"ens", v1::PASS, "ens6"},
      {"foo,ens6", v1::PASS, "ens6"},
      {"ens7", v1::FAIL, "ens7 has no IPv4 address"},
      {"eth", v1::FAIL, "eth0 is down"},
      {"acn", v1::FAIL, "a port of a Gaudi card"},
      {"^lo,eth,acn", v1::PASS, "ens6"},
      {"^lo,eth,acn,ens", v1::FAIL, "no interface fits"},
      {"lo", v1::WARN, "reaches no other machine"},
  };
  for (const IfnameCase& one : cases) {
    const v1::CheckResult result = With(one.value);
    EXPECT_EQ(result.verdict(), one.verdict) << one.value << ": " << result.message();
    EXPECT_THAT(result.message(), HasSubstr(one.text)) << one.value;
  }
}

TEST_F(NetworkChecksTest, LoopbackIsEnoughOnOneNode) {
  context_.node_count = 1;
  EXPECT_EQ(With("lo").verdict(), v1::PASS);
}

TEST_F(NetworkChecksTest, WithCardsOnSeveralNodesHcclMustFindOneByItself) {
  context_.cards = 8;
  EXPECT_EQ(VerdictOf("hccl-interface"), v1::PASS);
  context_.interfaces.resize(1);
  EXPECT_EQ(VerdictOf("hccl-interface"), v1::FAIL);
}

TEST_F(NetworkChecksTest, GlooTakesWholeNamesAndNeedsAllOfThem) {
  context_.env["GLOO_SOCKET_IFNAME"] = "ens6";
  EXPECT_EQ(VerdictOf("gloo-interface"), v1::PASS);
  context_.env["GLOO_SOCKET_IFNAME"] = "ens";
  EXPECT_EQ(VerdictOf("gloo-interface"), v1::FAIL);
  context_.env["GLOO_SOCKET_IFNAME"] = "ens6,ib0";
  const v1::CheckResult result = Run("gloo-interface");
  EXPECT_EQ(result.verdict(), v1::FAIL);
  EXPECT_THAT(result.message(), HasSubstr("ib0 is not there"));
}

TEST_F(NetworkChecksTest, NcclTakesBeginningsExclusionsAndWholeNames) {
  context_.env["NCCL_SOCKET_IFNAME"] = "=ens";
  EXPECT_EQ(VerdictOf("nccl-interface"), v1::FAIL);
  context_.env["NCCL_SOCKET_IFNAME"] = "=ens6";
  EXPECT_EQ(VerdictOf("nccl-interface"), v1::PASS);
  context_.env["NCCL_SOCKET_IFNAME"] = "^lo";
  EXPECT_EQ(VerdictOf("nccl-interface"), v1::PASS);
}

TEST_F(NetworkChecksTest, ANodeCalledLocalhostCannotBeToldFromOthers) {
  Put("/proc/sys/kernel/hostname", "localhost\n");
  context_.thorough = true;
  EXPECT_EQ(VerdictOf("hostname"), v1::WARN);
  context_.cards = 8;
  EXPECT_EQ(VerdictOf("hostname"), v1::FAIL);
  Put("/proc/sys/kernel/hostname", "gaudi-17\n");
  EXPECT_EQ(VerdictOf("hostname"), v1::PASS);
}

TEST(ReadNetworkInterfaces, FindsTheLoopbackInterface) {
  const std::vector<NetworkInterface> found = ReadNetworkInterfaces("");
  const auto lo = std::find_if(found.begin(), found.end(),
                               [](const NetworkInterface& one) { return one.name == "lo"; });
  ASSERT_NE(lo, found.end());
  EXPECT_TRUE(lo->loopback);
}

TEST(ReadNetworkInterfaces, KnowsTheSubnetOfEveryAddress) {
  for (const NetworkInterface& one : ReadNetworkInterfaces("")) {
    EXPECT_EQ(one.subnets.size(), one.ipv4.size()) << one.name;
    if (one.ipv4 == std::vector<std::string>{"127.0.0.1"}) {
      EXPECT_EQ(one.subnets[0], "127.0.0.0/8");
    }
  }
}

}  // namespace
}  // namespace muster::testing
