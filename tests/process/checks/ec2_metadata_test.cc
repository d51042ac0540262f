// The metadata service of an instance, asked over real connections to a small server on loopback.
#include "agent/checks/ec2_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/io/event_loop.h"
#include "tests/testing/metadata_server.h"

namespace muster::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// A limit that no machine is too slow for.
constexpr std::chrono::seconds kAmple{60};

absl::StatusOr<Ec2Instance> Ask(MetadataServer& server, milliseconds limit = kAmple) {
  server.Start();
  return AskEc2(server.endpoint(), std::chrono::steady_clock::now() + limit);
}

TEST(AskEc2, TakesATokenAndThenTheValues) {
  MetadataServer server;
  const absl::StatusOr<Ec2Instance> instance = Ask(server);
  ASSERT_TRUE(instance.ok()) << instance.status();
  EXPECT_EQ(instance->availability_zone, "us-east-1a");
  EXPECT_EQ(instance->placement_group, "train");
  EXPECT_EQ(instance->type, "dl1.24xlarge");
  const std::vector<std::string> requests = server.requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_THAT(requests[0], HasSubstr("\r\nX-aws-ec2-metadata-token-ttl-seconds: 60\r\n"));
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_THAT(requests[i], HasSubstr("\r\nX-aws-ec2-metadata-token: secret-token\r\n"));
  }
}

TEST(AskEc2, AnInstanceMayBeInNoPlacementGroup) {
  MetadataServer server;
  server.Say("GET /latest/meta-data/placement/group-name", "404 Not Found", "<html>");
  const absl::StatusOr<Ec2Instance> instance = Ask(server);
  ASSERT_TRUE(instance.ok()) << instance.status();
  EXPECT_EQ(instance->placement_group, "");
}

TEST(AskEc2, OtherAnswersAreErrorsWithThePath) {
  MetadataServer server;
  server.Say("GET /latest/meta-data/instance-type", "503 Busy", "");
  EXPECT_THAT(Ask(server).status().message(), HasSubstr("instance-type: HTTP 503"));
  MetadataServer off;
  off.Say("PUT /latest/api/token", "403 Forbidden", "");
  EXPECT_THAT(Ask(off).status().message(), HasSubstr("token: HTTP 403"));
  MetadataServer odd;
  odd.Say("PUT /latest/api/token", "200 OK", "a\r\nX-Evil: 1");
  EXPECT_FALSE(Ask(odd).ok());
  EXPECT_EQ(odd.requests().size(), 1u);
}

TEST(AskEc2, AServiceThatDoesNotAnswerIsGivenUp) {
  MetadataServer server;
  server.Set("PUT /latest/api/token", {"", MetadataServer::Reply::kHang});
  EXPECT_TRUE(absl::IsDeadlineExceeded(Ask(server, milliseconds(50)).status()));
}

TEST(AskEc2, AnAnswerWithoutEndIsGivenUp) {
  for (const char* start : {"HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 200 OK\r\n\r\n", "xxxxxxxx"}) {
    MetadataServer server;
    server.Set("PUT /latest/api/token", {start, MetadataServer::Reply::kForever});
    EXPECT_TRUE(absl::IsDataLoss(Ask(server).status())) << start;
  }
}

TEST(AskEc2, WhereNobodyListensIsAnError) {
  std::string endpoint;
  {
    MetadataServer server;
    endpoint = server.endpoint();
  }
  EXPECT_TRUE(
      absl::IsUnavailable(AskEc2(endpoint, std::chrono::steady_clock::now() + kAmple).status()));
}

TEST(Ec2Metadata, AnAnswerHoldsForEverAndIsSharedByAllWhoWait) {
  MetadataServer server;
  server.Start();
  EventLoop loop;
  Ec2Metadata metadata(loop, server.endpoint(), kAmple);
  int answers = 0;
  const auto count = [&](const absl::StatusOr<Ec2Instance>& instance) {
    EXPECT_TRUE(instance.ok()) << instance.status();
    if (++answers % 2 == 0) loop.Stop();
  };
  metadata.Ask(count);
  metadata.Ask(count);
  EXPECT_EQ(answers, 0);
  loop.Run();
  EXPECT_EQ(server.requests().size(), 4u);
  metadata.Ask(count);
  metadata.Ask(count);
  loop.Run();
  EXPECT_EQ(answers, 4);
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST(Ec2Metadata, AFailureIsToldAgainForAWhileWithoutAsking) {
  MetadataServer server;
  server.Say("PUT /latest/api/token", "403 Forbidden", "");
  server.Start();
  EventLoop loop;
  Ec2Metadata metadata(loop, server.endpoint(), kAmple);
  for (int i = 0; i < 2; ++i) {
    metadata.Ask([&](const absl::StatusOr<Ec2Instance>& instance) {
      EXPECT_FALSE(instance.ok());
      loop.Stop();
    });
    loop.Run();
  }
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(Ec2EndpointOf, HeedsTheVariablesOfAws) {
  EXPECT_EQ(Ec2EndpointOf({"PATH=/bin"}, "http://192.0.2.1"), "http://192.0.2.1");
  EXPECT_EQ(
      Ec2EndpointOf({"AWS_EC2_METADATA_SERVICE_ENDPOINT=http://[fd00::1]"}, "http://192.0.2.1"),
      "http://[fd00::1]");
  EXPECT_EQ(Ec2EndpointOf({"AWS_EC2_METADATA_DISABLED=true"}, "http://192.0.2.1"), "");
  EXPECT_EQ(Ec2EndpointOf({}, ""), "");
}

}  // namespace
}  // namespace muster::testing
