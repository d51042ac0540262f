#include "agent/devices/cards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void AddCard(v1::DeviceInventory& inventory, uint32_t index, uint32_t module,
             const std::string& status = "Operational") {
  v1::Device& device = *inventory.add_devices();
  device.set_index(index);
  device.set_module_id(module);
  device.set_status(status);
  device.set_pci_address("0000:0" + std::to_string(index) + ":00.0");
  device.set_device_node("/dev/accel/accel" + std::to_string(index));
}

v1::DeviceInventory Cards(const std::vector<uint32_t>& modules) {
  v1::DeviceInventory inventory;
  for (uint32_t i = 0; i < modules.size(); ++i) AddCard(inventory, i, modules[i]);
  return inventory;
}

std::vector<std::string> Problems(const v1::DeviceInventory& inventory) {
  std::vector<std::string> texts;
  for (const v1::Problem& problem : inventory.problems()) texts.push_back(problem.message());
  return texts;
}

TEST(StateOfCard, KnowsTheWordsOfTheDriver) {
  EXPECT_EQ(StateOfCard("Operational"), CardState::kReady);
  for (const char* passing : {"In reset", "In reset after device release", "In device creation"}) {
    EXPECT_EQ(StateOfCard(passing), CardState::kPassing) << passing;
  }
  for (const char* broken : {"Disabled", "Needs reset", "unknown", "Malfunction"}) {
    EXPECT_EQ(StateOfCard(broken), CardState::kBroken) << broken;
  }
}

TEST(JudgeCards, OrdersByModuleIdWhateverTheIndexIs) {
  v1::DeviceInventory inventory = Cards({6, 4, 7, 5});
  JudgeCards(inventory);
  EXPECT_THAT(UsableModules(inventory), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(inventory.devices(0).module_id(), 4u);
  EXPECT_EQ(inventory.devices(0).index(), 1u);
  EXPECT_THAT(Problems(inventory), IsEmpty());
}

TEST(JudgeCards, OffersNoCardOfAModuleIdThatTwoCardsHave) {
  v1::DeviceInventory inventory = Cards({0, 1, 1, 3});
  JudgeCards(inventory);
  EXPECT_THAT(UsableModules(inventory), ElementsAre(0, 3));
  EXPECT_THAT(Problems(inventory),
              ElementsAre(AllOf(HasSubstr("module id 1"), HasSubstr("index 1 at 0000:01:00.0"),
                                HasSubstr("index 2 at 0000:02:00.0"))));
}

TEST(JudgeCards, OffersCardsInAPassingStateAndTellsOfBrokenOnes) {
  v1::DeviceInventory inventory = Cards({0});
  AddCard(inventory, 1, 1, "In reset");
  AddCard(inventory, 2, 2, "Disabled");
  AddCard(inventory, 3, 3, "Needs reset");
  JudgeCards(inventory);
  EXPECT_THAT(UsableModules(inventory), ElementsAre(0, 1));
  EXPECT_THAT(
      Problems(inventory),
      ElementsAre(AllOf(HasSubstr("index 2 at 0000:02:00.0, module 2"), HasSubstr("\"Disabled\"")),
                  AllOf(HasSubstr("module 3"), HasSubstr("administrator"))));
}

TEST(UsableModules, LeavesOutCardsThatCannotBeOpened) {
  v1::DeviceInventory inventory = Cards({0, 1});
  inventory.mutable_devices(0)->clear_device_node();
  EXPECT_THAT(UsableModules(inventory), ElementsAre(1));
  // Which a tool does not say.
  inventory.set_source("hl-smi");
  EXPECT_THAT(UsableModules(inventory), ElementsAre(0, 1));
}

TEST(KeepVisibleCards, TakesModuleIdsAndIndexesForWhatTheyAre) {
  v1::DeviceInventory by_module = Cards({6, 4, 7, 5});
  KeepVisibleCards("6, 5", "", by_module);
  EXPECT_THAT(UsableModules(by_module), ElementsAre(5, 6));
  v1::DeviceInventory by_index = Cards({6, 4, 7, 5});
  KeepVisibleCards("", "1,2", by_index);
  EXPECT_THAT(UsableModules(by_index), ElementsAre(4, 7));
  v1::DeviceInventory both = Cards({6, 4, 7, 5});
  KeepVisibleCards("4,6", "1,2", both);
  EXPECT_THAT(UsableModules(both), ElementsAre(4));
  EXPECT_THAT(Problems(both), IsEmpty());
}

TEST(KeepVisibleCards, LetsAllThroughForAllAndForNothing) {
  for (const char* all : {"", "all", "ALL", " "}) {
    v1::DeviceInventory inventory = Cards({0, 1});
    KeepVisibleCards(all, all, inventory);
    EXPECT_EQ(inventory.devices_size(), 2) << all;
    EXPECT_THAT(Problems(inventory), IsEmpty());
  }
}

TEST(KeepVisibleCards, TellsWhatIsNotThereAndWhatIsNoNumber) {
  v1::DeviceInventory inventory = Cards({0, 1});
  KeepVisibleCards("1,5,x", "", inventory);
  EXPECT_THAT(UsableModules(inventory), ElementsAre(1));
  EXPECT_THAT(Problems(inventory),
              ElementsAre(HasSubstr("got \"x\""), HasSubstr("names module 5, which this node")));
}

}  // namespace
}  // namespace muster
