#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "agent/devices/hlml_library.h"
#include "agent/devices/hlml_query.h"
#include "agent/devices/inventory.h"
#include "common/base/annotate.h"
#include "tests/testing/sim_node.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string AgentProgram() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "agent";
}

HlmlCall Call(const std::string& fault,
              std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  return {.program = AgentProgram(),
          .library = FAKE_HLML,
          .environ = {"FAKE_HLML=" + fault},
          .limit = limit};
}

TEST(QueryHlml, ReadsWhatTheLibraryKnows) {
  const absl::StatusOr<v1::Node> node = QueryHlml(Call(""));
  ASSERT_TRUE(node.ok()) << node.status();
  ASSERT_EQ(node->readings_size(), 2);
  const v1::Device& device = node->facts().devices().devices(0);
  EXPECT_EQ(device.module_id(), 3u);
  EXPECT_EQ(device.serial(), "AM14000");
  ASSERT_EQ(device.ports_size(), 3);
  EXPECT_TRUE(device.ports(0).up());
  EXPECT_FALSE(device.ports(1).up());
  const v1::DeviceReading& reading = node->readings(1);
  EXPECT_EQ(reading.module_id(), 1u);
  EXPECT_EQ(reading.utilization_percent(), 41u);
  EXPECT_EQ(reading.memory_used_bytes(), 20u);
  EXPECT_EQ(reading.memory_total_bytes(), 30u);
  EXPECT_EQ(reading.temperature_celsius(), 51u);
  EXPECT_EQ(reading.power_milliwatts(), 94'000u);
  EXPECT_EQ(reading.ecc_uncorrected(), 2u);
  // Not supported by the library.
  EXPECT_FALSE(reading.has_ecc_corrected());
}

TEST(QueryHlml, TakesNothingThatTheLibraryPrintsForTheAnswer) {
  const absl::StatusOr<v1::Node> node = QueryHlml(Call("noise"));
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(node->readings_size(), 2);
}

TEST(QueryHlml, SurvivesALibraryThatCrashesHangsOrRefuses) {
  EXPECT_THAT(std::string(MessageOf(QueryHlml(Call("crash")).status())), HasSubstr("SIGABRT"));
  EXPECT_EQ(QueryHlml(Call("hang", std::chrono::milliseconds(300))).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(MessageOf(QueryHlml(Call("no-driver")).status())),
              HasSubstr("the driver is not loaded"));
}

TEST(QueryHlml, LeavesUnsetWhatIsNotSupported) {
  const absl::StatusOr<v1::Node> node = QueryHlml(Call("unsupported"));
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_FALSE(node->readings(0).has_utilization_percent());
  EXPECT_FALSE(node->readings(0).has_memory_total_bytes());
  EXPECT_TRUE(node->readings(0).has_temperature_celsius());
}

TEST(QueryHlml, TellsWhatIsNoSuchLibrary) {
  HlmlCall call = Call("");
  // A library, but of something else.
  call.library = "libm.so.6";
  EXPECT_THAT(std::string(MessageOf(QueryHlml(call).status())), HasSubstr("no hlml_init"));
  call.library = "/nowhere/libhlml.so";
  EXPECT_THAT(std::string(MessageOf(QueryHlml(call).status())), HasSubstr("/nowhere/libhlml.so"));
}

TEST(ReadInventory, CompletesSysfsFromTheLibrary) {
  const TempFolder folder;
  SimNode node(folder.File("root"));
  node.AddCards({3, 1});
  std::filesystem::create_directories(node.root() + "/usr/lib/habanalabs");
  std::filesystem::create_symlink(FAKE_HLML, node.root() + "/usr/lib/habanalabs/libhlml.so");
  DeviceOptions options;
  options.sysroot = node.root();
  options.own_program = AgentProgram();
  const v1::DeviceInventory inventory = ReadInventory(options);
  ASSERT_EQ(inventory.devices_size(), 2);
  EXPECT_EQ(inventory.source(), "sysfs");
  EXPECT_EQ(inventory.devices(0).serial(), "AM14001");
  const std::vector<v1::DeviceReading> readings = ReadCards(options, inventory);
  ASSERT_EQ(readings.size(), 2u);
  EXPECT_EQ(readings[1].module_id(), 3u);
  EXPECT_EQ(readings[1].status(), "Operational");
  EXPECT_EQ(readings[1].utilization_percent(), 40u);
  EXPECT_EQ(readings[1].ports_up(), 24u);
}

}  // namespace
}  // namespace muster
