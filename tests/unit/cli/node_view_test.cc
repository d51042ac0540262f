#include "coordinator/cli/node_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Node NodeWithCards() {
  v1::Node node;
  node.set_node_id("node-1");
  v1::DeviceInventory& inventory = *node.mutable_facts()->mutable_devices();
  inventory.set_source("sysfs");
  for (uint32_t module = 4; module < 6; ++module) {
    v1::Device& card = *inventory.add_devices();
    card.set_module_id(module);
    card.set_index(7 - module);
    card.set_pci_address("0000:19:00.0");
    card.set_status("Operational");
    card.set_numa_node(-1);
  }
  v1::DeviceReading& reading = *node.add_readings();
  reading.set_module_id(5);
  reading.set_status("In reset");
  reading.set_utilization_percent(0);
  reading.set_memory_used_bytes(uint64_t{1} << 30);
  reading.set_memory_total_bytes(uint64_t{96} << 30);
  reading.set_power_milliwatts(94'500);
  reading.set_ecc_uncorrected(2);
  reading.set_ports_up(23);
  reading.set_ports_down(1);
  v1::DeviceHolder& holder = *reading.add_holders();
  holder.set_pid(4711);
  holder.set_user("bob");
  holder.set_command("python3\x1b[2J train.py");
  node.mutable_readings_time()->set_seconds(1000);
  return node;
}

TEST(RenderNode, ShowsWhatCardsSaidLast) {
  const std::string text = RenderNode(NodeWithCards(), 1007);
  EXPECT_THAT(text, AllOf(HasSubstr("In reset"), HasSubstr("0 %"), HasSubstr("94 W"),
                          HasSubstr("?/2"), HasSubstr("23 up, 1 down"),
                          HasSubstr("pid 4711 of bob"), HasSubstr("read 7 s ago")));
  // What is told by a node must not command the terminal.
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(RenderNode, HasNoTableWithoutCards) {
  v1::Node node;
  node.set_node_id("node-1");
  EXPECT_THAT(RenderNode(node, 0), Not(HasSubstr("MODULE")));
}

TEST(CardsToJson, TellsWhatIsNotKnownFromZero) {
  const nlohmann::ordered_json cards = CardsToJson(NodeWithCards());
  ASSERT_EQ(cards.size(), 2u);
  EXPECT_EQ(cards[0]["status"], "Operational");
  EXPECT_TRUE(cards[0]["utilization_percent"].is_null());
  EXPECT_TRUE(cards[0]["numa_node"].is_null());
  EXPECT_EQ(cards[1]["index"], 2);
  EXPECT_EQ(cards[1]["utilization_percent"], 0);
  EXPECT_EQ(cards[1]["holders"][0]["pid"], 4711);
}

}  // namespace
}  // namespace muster
