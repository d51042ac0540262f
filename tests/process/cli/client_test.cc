#include "coordinator/cli/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "common/base/annotate.h"
#include "tests/process/cli/pipes.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class FindServerTest : public ::testing::Test {
 protected:
  FindServerTest() {
    ::unsetenv("MUSTER_SERVER");
    ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1);
  }
  ~FindServerTest() override {
    ::unsetenv("MUSTER_SERVER");
    ::unsetenv("XDG_RUNTIME_DIR");
  }

  testing::TemporaryFolder folder_;
};

TEST_F(FindServerTest, FlagWinsOverVariable) {
  ::setenv("MUSTER_SERVER", "unix:/from/variable", 1);
  EXPECT_EQ((*FindServer("unix:/from/flag"))->target, "unix:/from/flag");
  EXPECT_EQ((*FindServer("/from/flag"))->target, "unix:/from/flag");
  EXPECT_EQ((*FindServer(""))->target, "unix:/from/variable");
  EXPECT_EQ((*FindServer(""))->origin, "MUSTER_SERVER");
}

TEST_F(FindServerTest, FindsTheDefaultSocket) {
  std::filesystem::create_directory(folder_.path() + "/muster");
  std::ofstream(folder_.path() + "/muster/coordinator.sock") << "";
  EXPECT_EQ((*FindServer(""))->target, "unix:" + folder_.path() + "/muster/coordinator.sock");
}

TEST_F(FindServerTest, RefusesOtherAddresses) {
  const absl::Status status = FindServer("node-1:7000").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("--server: expected unix:/path"));
  EXPECT_FALSE(FindServer("unix:").ok());
}

TEST_F(FindServerTest, TextForNoneNamesLocal) {
  EXPECT_THAT(NoServerText(true), HasSubstr("--local"));
}

TEST(Client, MissingServerIsUnavailableAtOnce) {
  absl::StatusOr<std::unique_ptr<Client>> client = Connect("unix:/nonexistent/socket");
  ASSERT_TRUE(client.ok());
  EXPECT_TRUE(absl::IsUnavailable((*client)->GetJob("j").status()));
}

}  // namespace
}  // namespace muster
