#include "agent/checks/engine_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

ProbeAnswer Answered(const std::string& reason) {
  ProbeAnswer answer;
  internal::ProbeReply& reply = answer.replies.emplace_back();
  reply.mutable_program()->set_name("docker");
  reply.mutable_program()->set_reason(reason);
  return answer;
}

TEST(RefusalOf, IsEmptyForAnEngineThatAnswers) {
  EXPECT_EQ(RefusalOf("docker", RunAs(), Answered("")), "");
}

TEST(RefusalOf, HasTheReasonAndTheFixOfTheEngine) {
  RunAs bob;
  bob.self = false;
  bob.name = "bob";
  EXPECT_THAT(RefusalOf("docker", bob, Answered("exit status 1: no daemon")),
              AllOf(StartsWith("exit status 1: no daemon ("), HasSubstr("systemctl start docker"),
                    HasSubstr("\"docker version\" as user bob"), Not(HasSubstr("podman"))));
  EXPECT_THAT(RefusalOf("podman", bob, Answered("exit status 125")),
              HasSubstr("run \"podman info\" as user bob on this node"));
}

TEST(RefusalOf, TellsOfOneThatWasNotHeard) {
  EXPECT_THAT(RefusalOf("docker", RunAs(), {}), StartsWith("no answer within 5 s"));
  ProbeAnswer failed;
  failed.error = "earlier checks of this node hang";
  EXPECT_THAT(RefusalOf("docker", RunAs(), failed), StartsWith("earlier checks"));
  // The user could not be become.
  ProbeAnswer refused;
  refused.replies.emplace_back().set_error("the agent cannot become user 'bob'");
  EXPECT_THAT(RefusalOf("podman", RunAs(), refused), StartsWith("the agent cannot become"));
}

}  // namespace
}  // namespace muster
