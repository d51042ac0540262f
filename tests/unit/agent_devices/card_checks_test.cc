#include "agent/devices/card_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::DeviceInventory EightCards() {
  v1::DeviceInventory inventory;
  inventory.set_source("sysfs");
  for (uint32_t i = 0; i < 8; ++i) {
    v1::Device& device = *inventory.add_devices();
    device.set_index(7 - i);
    device.set_module_id(i);
    device.set_status("Operational");
    device.set_type("GAUDI2");
    device.set_pci_address("0000:b" + std::to_string(i) + ":00.0");
    device.set_device_node("/dev/accel/accel" + std::to_string(7 - i));
    for (uint32_t port = 0; port < 24; ++port) {
      v1::DevicePort& link = *device.add_ports();
      link.set_port(port);
      link.set_up(true);
      link.set_external(port == 8 || port == 22 || port == 23);
    }
  }
  return inventory;
}

v1::LaunchSpec Launch(const std::vector<uint32_t>& modules, uint32_t nodes = 1) {
  v1::LaunchSpec launch;
  launch.set_slots_are_cards(true);
  launch.set_node_count(nodes);
  for (const uint32_t module : modules) launch.add_ranks()->set_slot(module);
  return launch;
}

std::map<std::string, v1::CheckResult> ByName(const std::vector<v1::CheckResult>& results) {
  std::map<std::string, v1::CheckResult> map;
  for (const v1::CheckResult& result : results) map[result.check()] = result;
  return map;
}

CardHolder HolderOf(uint32_t module) {
  CardHolder holder{module, {}};
  holder.holder.set_pid(4711);
  holder.holder.set_user("bob");
  holder.holder.set_command("python3 train.py");
  holder.holder.set_job_id("k3x");
  return holder;
}

TEST(CheckCards, PassesOnAHealthyNode) {
  for (const v1::CheckResult& result : CheckCards(Launch({0, 1, 2, 3}, 2), EightCards(), {})) {
    EXPECT_EQ(result.verdict(), v1::PASS) << result.message();
  }
}

TEST(CheckCards, TellsOfCardsThatNoJobCanHaveToWhoAsksForALook) {
  v1::DeviceInventory inventory = EightCards();
  inventory.add_problems()->set_message("module id 2 is that of 2 cards");
  auto results = ByName(CheckCards(Launch({0, 1}), inventory, {}));
  EXPECT_EQ(results["cards"].verdict(), v1::WARN);
  EXPECT_THAT(results["cards"].message(), HasSubstr("module id 2 is that of 2 cards"));
  CardCheckOptions start;
  start.wait_follows = true;
  results = ByName(CheckCards(Launch({0, 1}), inventory, {}, start));
  EXPECT_EQ(results["cards"].verdict(), v1::PASS) << results["cards"].message();
}

TEST(CheckCards, LooksAtNoCardForPlainSlots) {
  v1::LaunchSpec launch = Launch({0});
  launch.set_slots_are_cards(false);
  EXPECT_THAT(CheckCards(launch, {}, {}), IsEmpty());
}

TEST(CheckCards, FailsForACardThatIsMissingDoubleOrBroken) {
  v1::DeviceInventory inventory = EightCards();
  inventory.mutable_devices(2)->set_status("Disabled");
  inventory.mutable_devices(3)->set_module_id(4);
  const auto results = ByName(CheckCards(Launch({2, 3, 4, 9}), inventory, {}));
  EXPECT_EQ(results.at("cards").verdict(), v1::FAIL);
  EXPECT_THAT(results.at("cards").message(),
              AllOf(HasSubstr("module 2 (index 5, 0000:b2:00.0): Disabled"),
                    HasSubstr("module 3 is not there"), HasSubstr("module 4 is the id of 2 cards"),
                    HasSubstr("module 9 is not there")));
}

TEST(CheckCards, TellsWhoHoldsACardAndWarnsOnlyWhereTheStartWaits) {
  const auto refused = ByName(CheckCards(Launch({1, 2}), EightCards(), {HolderOf(2), HolderOf(5)}));
  EXPECT_EQ(refused.at("card-busy").verdict(), v1::FAIL);
  EXPECT_THAT(refused.at("card-busy").message(),
              AllOf(HasSubstr("module 2 (index 5, 0000:b2:00.0) is held by pid 4711 of bob "
                              "(python3 train.py), job k3x"),
                    ::testing::Not(HasSubstr("module 5"))));
  CardCheckOptions waits;
  waits.wait_follows = true;
  const auto warned = ByName(CheckCards(Launch({1, 2}), EightCards(), {HolderOf(2)}, waits));
  EXPECT_EQ(warned.at("card-busy").verdict(), v1::WARN);
}

TEST(CheckCards, TakesAStateThatPassesForAWarningWhereTheStartWaits) {
  v1::DeviceInventory inventory = EightCards();
  inventory.mutable_devices(0)->set_status("In reset after device release");
  EXPECT_EQ(ByName(CheckCards(Launch({0}), inventory, {})).at("cards").verdict(), v1::FAIL);
  CardCheckOptions waits;
  waits.wait_follows = true;
  EXPECT_EQ(ByName(CheckCards(Launch({0}), inventory, {}, waits)).at("cards").verdict(), v1::WARN);
}

TEST(CheckCards, LooksAtPortsBetweenNodesOnly) {
  v1::DeviceInventory inventory = EightCards();
  inventory.mutable_devices(1)->mutable_ports(3)->set_up(false);
  EXPECT_EQ(ByName(CheckCards(Launch({1}), inventory, {})).count("card-ports"), 0u);
  const v1::CheckResult down = ByName(CheckCards(Launch({1}, 2), inventory, {})).at("card-ports");
  EXPECT_EQ(down.verdict(), v1::FAIL);
  EXPECT_THAT(down.message(), HasSubstr("module 1 (index 6, 0000:b1:00.0): port 3 down"));
  // The card of another job.
  EXPECT_EQ(ByName(CheckCards(Launch({2}, 2), inventory, {})).at("card-ports").verdict(), v1::PASS);
}

TEST(CheckCards, LetsOuterPortsBeDownWhereTheHostsNetworkIsUsed) {
  v1::DeviceInventory inventory = EightCards();
  inventory.mutable_devices(1)->mutable_ports(22)->set_up(false);
  EXPECT_EQ(ByName(CheckCards(Launch({1}, 2), inventory, {})).at("card-ports").verdict(), v1::FAIL);
  CardCheckOptions host;
  host.host_network = true;
  EXPECT_EQ(ByName(CheckCards(Launch({1}, 2), inventory, {}, host)).at("card-ports").verdict(),
            v1::PASS);
}

TEST(CheckCards, TellsTheErrorOfTheContainerRuntime) {
  CardCheckOptions options;
  options.runtime_error = "no devices found";
  const auto results = ByName(CheckCards(Launch({0}), EightCards(), {}, options));
  EXPECT_EQ(results.at("runtime-error").verdict(), v1::FAIL);
  EXPECT_THAT(results.at("runtime-error").message(), HasSubstr("no devices found"));
}

}  // namespace
}  // namespace muster
