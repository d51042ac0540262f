#include "coordinator/cli/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "common/base/annotate.h"
#include "tests/process/cli/fake_job_service.h"
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

TEST_F(FindServerTest, TakesHostAndPort) {
  EXPECT_EQ((*FindServer("node-1:7443"))->target, "node-1:7443");
  EXPECT_EQ((*FindServer("[2001:db8::1]:7443"))->target, "[2001:db8::1]:7443");
}

TEST_F(FindServerTest, RefusesWhatIsNoAddress) {
  for (const char* address : {"node-1", "unix:", "http://node-1:7443", "node-1:", ":7443"}) {
    const absl::Status status = FindServer(address).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address;
    EXPECT_THAT(std::string(MessageOf(status)),
                HasSubstr("--server: expected HOST:PORT or unix:/path"));
  }
}

TEST_F(FindServerTest, WithoutACertificateHostAndPortCannotBeCalled) {
  ::setenv("XDG_CONFIG_HOME", folder_.path().c_str(), 1);
  const absl::Status status = Connect("node-1:7443").status();
  ::unsetenv("XDG_CONFIG_HOME");
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("coordinator join HOST:PORT TOKEN"));
}

TEST_F(FindServerTest, TextForNoneNamesLocal) {
  EXPECT_THAT(NoServerText(true), HasSubstr("--local"));
}

TEST(Client, MissingServerIsUnavailableAtOnce) {
  absl::StatusOr<std::unique_ptr<Client>> client = Connect("unix:/nonexistent/socket");
  ASSERT_TRUE(client.ok());
  EXPECT_TRUE(absl::IsUnavailable((*client)->GetJob("j").status()));
}

TEST(Client, CallsThatACoordinatorCancelsAtItsEndAreABrokenConnection) {
  testing::FakeJobService service;
  Client client = service.MakeClient();
  service.CancelCalls(2);
  // What asks again does so after this.
  const absl::Status submitted = client.SubmitJob({}).status();
  EXPECT_TRUE(absl::IsUnavailable(submitted)) << submitted;
  Cancellation cancellation;
  const absl::Status watched = client.WatchJob("j1", cancellation, [](v1::Job) { return true; });
  EXPECT_TRUE(absl::IsUnavailable(watched)) << watched;
  EXPECT_EQ(client.SubmitJob({})->job_id(), "j1");
}

TEST(Client, WhatIsCancelledHereStaysCancelled) {
  testing::FakeJobService service;
  Client client = service.MakeClient();
  Cancellation cancellation;
  cancellation.Cancel();
  const absl::Status stopped = client.WatchJob("j1", cancellation, [](v1::Job) { return true; });
  EXPECT_TRUE(absl::IsCancelled(stopped)) << stopped;
}

}  // namespace
}  // namespace muster
