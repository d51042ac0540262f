#include "agent/devices/inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/devices/cards.h"
#include "tests/testing/sim_node.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Inventory : public ::testing::Test {
 protected:
  v1::DeviceInventory Read() {
    options_.sysroot = node_.root();
    return ReadInventory(options_);
  }
  static std::vector<std::string> Problems(const v1::DeviceInventory& inventory) {
    std::vector<std::string> texts;
    for (const v1::Problem& problem : inventory.problems()) texts.push_back(problem.message());
    return texts;
  }

  const TempFolder folder_;
  SimNode node_{folder_.File("root")};
  DeviceOptions options_;
};

TEST_F(Inventory, IsEmptyWithoutCards) {
  const v1::DeviceInventory inventory = Read();
  EXPECT_THAT(inventory.devices(), IsEmpty());
  EXPECT_THAT(inventory.problems(), IsEmpty());
  EXPECT_EQ(inventory.source(), "");
}

TEST_F(Inventory, ReadsEverythingOfACard) {
  node_.Add({.index = 2, .module = 5, .numa_node = 1, .ports_down = {22}});
  const v1::DeviceInventory inventory = Read();
  ASSERT_EQ(inventory.devices_size(), 1);
  const v1::Device& card = inventory.devices(0);
  EXPECT_EQ(inventory.source(), "sysfs");
  EXPECT_EQ(card.module_id(), 5u);
  EXPECT_EQ(card.index(), 2u);
  EXPECT_EQ(card.pci_address(), SimNode::PciAddress(2));
  EXPECT_EQ(card.numa_node(), 1);
  EXPECT_EQ(card.local_cpus(), "24-47,72-95");
  EXPECT_EQ(card.type(), "GAUDI2 Simulator");
  EXPECT_EQ(card.status(), "Operational");
  EXPECT_EQ(card.driver_version(), "1.20.0-bd47280");
  EXPECT_EQ(card.firmware_version(), "hl-gaudi2-1.20.0-fw-58.0.0");
  EXPECT_EQ(card.device_node(), node_.NodePath(2));
  ASSERT_EQ(card.ports_size(), 24);
  EXPECT_FALSE(card.ports(22).up());
  EXPECT_TRUE(card.ports(22).external());
  EXPECT_FALSE(card.ports(21).external());
  EXPECT_EQ(card.ports(21).interface(), "acc2p21");
  EXPECT_THAT(Problems(inventory), IsEmpty());
}

TEST_F(Inventory, TakesTheNumberOfAnIndexWhole) {
  for (uint32_t i = 0; i < 12; ++i) node_.Add({.index = i, .module = 11 - i});
  const v1::DeviceInventory inventory = Read();
  EXPECT_THAT(UsableModules(inventory), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_EQ(inventory.devices(1).index(), 10u);
  EXPECT_EQ(inventory.devices(1).pci_address(), SimNode::PciAddress(10));
}

TEST_F(Inventory, NeverTakesTheIndexForTheModuleId) {
  node_.AddCards({6, 4, 7, 5});
  node_.Remove(SimNode::DeviceFolder(2) + "/module_id");
  node_.SetModule(3, "five\n");
  const v1::DeviceInventory inventory = Read();
  EXPECT_THAT(UsableModules(inventory), ElementsAre(4, 6));
  EXPECT_THAT(Problems(inventory),
              ElementsAre(AllOf(HasSubstr("index 2"), HasSubstr(SimNode::PciAddress(2))),
                          AllOf(HasSubstr("index 3"), HasSubstr("\"five\""))));
}

TEST_F(Inventory, SurvivesAttributesThatCannotBeRead) {
  node_.AddCards({0, 1});
  node_.Unreadable(SimNode::DeviceFolder(0) + "/fw_os_ver");
  node_.Unreadable(SimNode::DeviceFolder(1) + "/status");
  const v1::DeviceInventory inventory = Read();
  EXPECT_THAT(UsableModules(inventory), ElementsAre(0));
  EXPECT_EQ(inventory.devices(0).firmware_version(), "");
  EXPECT_THAT(Problems(inventory), ElementsAre(AllOf(HasSubstr("index 1"), HasSubstr("module 1"),
                                                     HasSubstr("status cannot be read"))));
}

TEST_F(Inventory, HasNoNumaNodeInAVirtualMachine) {
  node_.Add({.index = 0, .module = 0, .numa_node = -1});
  node_.Add({.index = 1, .module = 1});
  node_.Remove("/sys/bus/pci/devices/" + SimNode::PciAddress(1));
  const v1::DeviceInventory inventory = Read();
  EXPECT_EQ(inventory.devices(0).numa_node(), -1);
  EXPECT_EQ(inventory.devices(1).numa_node(), -1);
  EXPECT_THAT(inventory.devices(1).ports(), IsEmpty());
  EXPECT_THAT(UsableModules(inventory), ElementsAre(0, 1));
}

TEST_F(Inventory, PassesOverAcceleratorsOfOthers) {
  node_.AddCards({0, 1});
  node_.Write("/sys/class/accel/accel7/device/vendor", "0x8086\n");
  node_.Write("/sys/class/accel/accel7/device/module_id", "7\n");
  node_.Write("/sys/class/accel/accel8/device/device_type", "GOYA\n");
  node_.Write("/sys/class/accel/accel9/device/uevent", "\n");
  const v1::DeviceInventory inventory = Read();
  EXPECT_THAT(UsableModules(inventory), ElementsAre(0, 1));
  EXPECT_THAT(Problems(inventory), IsEmpty());
}

TEST_F(Inventory, LeavesOutCardsWithoutADeviceNode) {
  node_.AddCards({0, 1, 2, 3});
  node_.Remove("/dev/accel/accel1");
  node_.Remove("/dev/accel/accel2");
  const v1::DeviceInventory inventory = Read();
  EXPECT_THAT(UsableModules(inventory), ElementsAre(0, 3));
  EXPECT_THAT(Problems(inventory),
              ElementsAre(AllOf(HasSubstr("index 1, 2"), HasSubstr("no device node"))));
}

TEST_F(Inventory, ReadsTheOldPlacesOfTheDriver) {
  for (const char* index : {"0", "1"}) {
    const std::string device = std::string("/sys/class/habanalabs/hl") + index + "/device";
    node_.Write(device + "/module_id", std::string(index) == "0" ? "1" : "0");
    node_.Write(device + "/status", "Operational\n");
    node_.Write(device + "/device_type", "GAUDI\n");
    node_.Write(std::string("/dev/hl") + index, "");
  }
  node_.Write("/sys/class/habanalabs/hl_controlD0/dev", "1:2\n");
  const v1::DeviceInventory inventory = Read();
  EXPECT_THAT(UsableModules(inventory), ElementsAre(0, 1));
  EXPECT_EQ(inventory.devices(0).device_node(), node_.root() + "/dev/hl1");
}

TEST_F(Inventory, KeepsToWhatTheContainerMaySee) {
  node_.AddCards({6, 4, 7, 5});
  options_.environ = {"HABANA_VISIBLE_MODULES=4,5", "HABANA_VISIBLE_DEVICES=all"};
  EXPECT_THAT(UsableModules(Read()), ElementsAre(4, 5));
  options_.environ = {"HABANA_VISIBLE_DEVICES=0,1"};
  EXPECT_THAT(UsableModules(Read()), ElementsAre(4, 6));
}

TEST_F(Inventory, AsksTheToolWhereSysfsShowsNothing) {
  node_.WriteProgram("/usr/bin/hl-smi",
                     "#!/bin/sh\n"
                     "[ -n \"$ENABLE_CONSOLE\" ] && echo '[info] noise'\n"
                     "touch \"$HABANA_LOGS/hl-smi.log\" || exit 9\n"
                     "printf 'index, module_id\\n0, 6\\n1, 4\\n2, 7\\n3, 5\\n'\n");
  options_.environ = {"ENABLE_CONSOLE=true", "HABANA_LOGS=/nowhere/logs", "PATH=/usr/bin:/bin"};
  const v1::DeviceInventory inventory = Read();
  EXPECT_EQ(inventory.source(), "hl-smi");
  EXPECT_THAT(UsableModules(inventory), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(inventory.devices(0).index(), 1u);
  EXPECT_EQ(inventory.devices(0).numa_node(), -1);
  EXPECT_THAT(Problems(inventory), IsEmpty());
}

TEST_F(Inventory, DoesNotAskTheToolWhereSysfsShowsCards) {
  node_.AddCards({0, 1});
  node_.WriteProgram("/usr/bin/hl-smi", "#!/bin/sh\ntouch \"$0.was-asked\"\n");
  EXPECT_EQ(Read().source(), "sysfs");
  EXPECT_FALSE(std::filesystem::exists(node_.root() + "/usr/bin/hl-smi.was-asked"));
}

TEST_F(Inventory, AsksAnOldToolAgainForLess) {
  node_.WriteProgram(
      "/usr/bin/hl-smi",
      "#!/bin/sh\n"
      "[ \"$2\" = index,module_id,bus_id ] || { echo 'unknown field' >&2; exit 1; }\n"
      "echo ' 1, 0, 0000:19:00.0'; echo ' 0, 1, 0000:1a:00.0'\n");
  const v1::DeviceInventory inventory = Read();
  EXPECT_THAT(UsableModules(inventory), ElementsAre(0, 1));
  EXPECT_EQ(inventory.devices(0).pci_address(), "0000:19:00.0");
}

TEST_F(Inventory, TellsOfAToolThatFailsHangsOrSaysNothing) {
  node_.WriteProgram("/usr/bin/hl-smi",
                     "#!/bin/sh\necho 'no driver' >&2\necho '0, 1, x'\nexit 1\n");
  v1::DeviceInventory inventory = Read();
  EXPECT_THAT(inventory.devices(), IsEmpty());
  EXPECT_THAT(Problems(inventory), ElementsAre(AllOf(HasSubstr("code 1"), HasSubstr("no driver"))));
  node_.WriteProgram("/usr/bin/hl-smi", "#!/bin/sh\nwhile :; do sleep 1; done\n");
  options_.limits.hl_smi = std::chrono::milliseconds(200);
  inventory = Read();
  EXPECT_THAT(inventory.devices(), IsEmpty());
  EXPECT_THAT(Problems(inventory), ElementsAre(HasSubstr("took longer than")));
  options_.limits.hl_smi = std::chrono::seconds(20);
  node_.WriteProgram("/usr/bin/hl-smi", "#!/bin/sh\necho 'No devices were found'\n");
  EXPECT_THAT(Problems(Read()), ElementsAre(HasSubstr("No devices were found")));
}

TEST_F(Inventory, TellsWhatCardsSayNow) {
  node_.AddCards({1, 0});
  const v1::DeviceInventory inventory = Read();
  node_.SetStatus(0, "In reset");
  node_.SetPort(0, 3, "down");
  node_.Remove(SimNode::DeviceFolder(1));
  options_.proc = folder_.File("proc");
  std::filesystem::create_directories(options_.proc + "/4711/fd");
  std::filesystem::create_symlink(node_.NodePath(0), options_.proc + "/4711/fd/3");
  const std::vector<v1::DeviceReading> readings = ReadCards(options_, inventory);
  ASSERT_EQ(readings.size(), 2u);
  EXPECT_EQ(readings[0].module_id(), 0u);
  EXPECT_EQ(readings[0].status(), "gone");
  EXPECT_EQ(readings[1].status(), "In reset");
  EXPECT_EQ(readings[1].ports_down(), 1u);
  EXPECT_EQ(readings[1].ports_up(), 23u);
  ASSERT_EQ(readings[1].holders_size(), 1);
  EXPECT_EQ(readings[1].holders(0).pid(), 4711);
  EXPECT_FALSE(readings[1].has_utilization_percent());
}

}  // namespace
}  // namespace muster
