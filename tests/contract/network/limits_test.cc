// What users of the network may have at once.
#include "tests/contract/network/network_fixture.h"

namespace muster {
namespace {

class LimitsTest : public NetworkTest {
 protected:
  CoordinatorConfig Config() override {
    CoordinatorConfig config = NetworkTest::Config();
    config.core.user_limits = {.jobs = 1, .ranks = 3};
    return config;
  }
  grpc::Status SubmitAs(const Identity& who, uint32_t slots) {
    v1::SubmitJobRequest request;
    v1::HostEntry& host = *request.mutable_spec()->add_hosts();
    host.set_host("node-1");
    host.set_slot_count(slots);
    host.set_source("hostfile:1");
    request.mutable_spec()->set_name("test");
    request.mutable_spec()->mutable_program()->set_kind(v1::Program::COMMAND);
    request.mutable_spec()->mutable_program()->set_target("true");
    request.mutable_spec()->set_working_directory("/");
    v1::Job job;
    const auto context = MakeContext();
    return v1::JobService::NewStub(Dial(Made(who)))->SubmitJob(context.get(), request, &job);
  }
};

TEST_F(LimitsTest, AreOfEachUserAndNotOfAdmins) {
  const Identity alice = Of(IdentityKind::kUser, "alice");
  EXPECT_EQ(SubmitAs(alice, 4).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(SubmitAs(alice, 3).ok());
  const grpc::Status second = SubmitAs(alice, 1);
  EXPECT_EQ(second.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(
      second.error_message(),
      testing::HasSubstr("user alice has 1 job that has not ended, and may have 1 at once"));
  EXPECT_TRUE(SubmitAs(Of(IdentityKind::kUser, "bob"), 1).ok());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(SubmitAs(Of(IdentityKind::kAdmin, "root"), 4).ok());
}

}  // namespace
}  // namespace muster
