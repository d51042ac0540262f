// What a node tells to be compared.
#include "agent/checks/traits.h"

#include <gmock/gmock.h>

#include <map>

#include "tests/unit/agent_checks/check_world.h"

namespace muster::testing {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

class TraitsTest : public CheckTest {
 protected:
  std::map<std::string, std::string> Traits(bool own_machine = true) {
    std::map<std::string, std::string> traits;
    for (const v1::NodeTrait& trait : QuickTraits(context_, own_machine)) {
      traits[trait.name()] = trait.value();
    }
    return traits;
  }
};

TEST_F(TraitsTest, OneNodeHasNothingToBeComparedWith) {
  context_.cards = 8;
  EXPECT_THAT(Traits(), IsEmpty());
}

TEST_F(TraitsTest, VariablesOfHcclAreToldButNotSecretsNorInterfaces) {
  context_.node_count = 2;
  context_.env = {{"HCCL_OVER_OFI", "1"},
                  {"HCCL_SOCKET_IFNAME", "ens6"},
                  {"HCCL_API_KEY", "hush"},
                  {"PATH", "/bin"}};
  EXPECT_THAT(Traits(), ::testing::ElementsAre(Pair("env.HCCL_OVER_OFI", "1")));
}

TEST_F(TraitsTest, CardsTellTheirVersions) {
  context_.node_count = 2;
  context_.cards = 2;
  Put("/sys/module/habanalabs/version", "1.22.0\n");
  // No newline at its end, as the driver has it.
  Put("/sys/class/accel/accel0/device/fw_os_ver", "fw-1.22");
  Put("/sys/class/accel/accel1/device/fw_os_ver", "fw-1.21");
  Put("/sys/class/accel/accel_controlD0/device/fw_os_ver", "no card");
  Put("/sys/class/accel/accel0/device/device_type", "GAUDI2\n");
  const std::map<std::string, std::string> traits = Traits();
  EXPECT_THAT(traits, Contains(Pair("driver", "1.22.0")));
  EXPECT_THAT(traits, Contains(Pair("firmware", "fw-1.21, fw-1.22")));
  EXPECT_THAT(traits, Contains(Pair("device-type", "GAUDI2")));
}

TEST_F(TraitsTest, AgentsOfALocalJobDoNotStandForTheirMachine) {
  context_.thorough = true;
  Put("/proc/sys/kernel/hostname", "gaudi-17\n");
  EXPECT_THAT(Traits(true), Contains(Pair("hostname", "gaudi-17")));
  EXPECT_THAT(Traits(false), Not(Contains(Key("hostname"))));
}

TEST_F(TraitsTest, TheSubnetIsToldWhereRanksUseTheHostsNetwork) {
  context_.node_count = 2;
  AddInterface("lo", "127.0.0.1");
  AddInterface("ens5", "10.0.2.7");
  context_.interfaces[1].subnets = {"10.0.2.0/24"};
  EXPECT_THAT(Traits(), IsEmpty());
  context_.env["HCCL_OVER_OFI"] = "1";
  EXPECT_THAT(Traits(), Contains(Pair("subnet", "10.0.2.0/24")));
  context_.env["HCCL_SOCKET_IFNAME"] = "lo";
  EXPECT_THAT(Traits(), Not(Contains(Key("subnet"))));
  context_.env["HCCL_SOCKET_IFNAME"] = "ens";
  context_.interfaces[1].subnets = {"10.0.2.7/32"};
  EXPECT_THAT(Traits(), Not(Contains(Key("subnet"))));
}

TEST_F(TraitsTest, CardsSayWhetherTheirNetworkHasRouters) {
  context_.node_count = 2;
  context_.cards = 8;
  EXPECT_THAT(Traits(), Contains(Pair("scale-out", "L2")));
  Put("/etc/gaudinet.json", "{}");
  EXPECT_THAT(Traits(), Contains(Pair("scale-out", "L3")));
  context_.env["HCCL_OVER_OFI"] = "1";
  EXPECT_THAT(Traits(), Not(Contains(Key("scale-out"))));
}

TEST_F(TraitsTest, AnInstanceOfAwsIsKnownByItsFirmwareOrItsDevices) {
  EXPECT_FALSE(context_.is_ec2());
  Put("/sys/class/dmi/id/sys_vendor", "QEMU\n");
  EXPECT_FALSE(context_.is_ec2());
  Put("/sys/class/dmi/id/board_vendor", "Amazon EC2\n");
  EXPECT_TRUE(context_.is_ec2());
}

}  // namespace
}  // namespace muster::testing
