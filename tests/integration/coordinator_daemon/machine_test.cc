#include "coordinator/daemon/machine.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "common/base/annotate.h"

namespace muster {
namespace {

TEST(MachineAddresses, BeginsWithOneThatAlwaysWorks) {
  const std::vector<std::string> addresses = MachineAddresses();
  ASSERT_FALSE(addresses.empty());
  EXPECT_EQ(addresses[0], "127.0.0.1");
}

TEST(FindProgram, SaysWhereItLooked) {
  std::string folder = testing::TempDir() + "/muster-bin-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  ::setenv("MUSTER_BIN_DIR", folder.c_str(), 1);
  const absl::StatusOr<std::string> missing = FindProgram("agent");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(MessageOf(missing.status())), testing::HasSubstr(folder + "/agent"));
  std::ofstream(folder + "/agent");
  EXPECT_FALSE(FindProgram("agent").ok()) << "it is not executable";
  ::chmod((folder + "/agent").c_str(), 0755);
  EXPECT_EQ(*FindProgram("agent"), folder + "/agent");
  ::unsetenv("MUSTER_BIN_DIR");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace muster
