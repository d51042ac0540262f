// All that a node looks at, together: one answer, whatever is late.
#include "agent/checks/node_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/testing/metadata_server.h"
#include "tests/testing/temp_folder.h"

namespace muster::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class NodeChecksTest : public ::testing::Test {
 protected:
  NodeChecksTest() {
    std::filesystem::create_directories(root_.File("sys/class/dmi/id"));
    std::ofstream(root_.File("sys/class/dmi/id/sys_vendor")) << "Amazon EC2\n";
    launch_.set_working_directory("/");
    launch_.set_slots_are_cards(true);
    launch_.set_node_count(2);
    launch_.add_ranks();
    launch_.add_skip_checks("software");
    bootstrap_.add_ranks();
    bootstrap_.set_working_directory("/");
  }
  // What a start is told; traits by name.
  std::map<std::string, std::string> Traits(milliseconds limit) {
    server_.Start();
    Ec2Metadata ec2(loop_, server_.endpoint(), limit);
    ProbeRunner probes(loop_, SHIM_PROGRAM, {});
    NodeChecks checks(
        loop_, probes,
        {.sysroot = root_.path(), .state_directory = "", .own_machine = true, .ec2 = &ec2});
    int answers = 0;
    checks.Inspect({attempt_, launch_, user_, bootstrap_}, [&](Inspection inspection) {
      ++answers;
      found_ = std::move(inspection);
      loop_.Stop();
    });
    EXPECT_EQ(answers, 0);
    loop_.Run();
    EXPECT_EQ(answers, 1);
    std::map<std::string, std::string> traits;
    for (const v1::NodeTrait& trait : found_.report.traits()) traits[trait.name()] = trait.value();
    return traits;
  }
  std::string MessageOf(const std::string& check) const {
    for (const v1::CheckResult& result : found_.report.results()) {
      if (result.check() == check) {
        return v1::Verdict_Name(result.verdict()) + " " + result.message();
      }
    }
    return "";
  }

  TempFolder root_;
  EventLoop loop_;
  MetadataServer server_;
  const AttemptId attempt_{JobId("j1"), 1};
  const RunAs user_;
  v1::LaunchSpec launch_;
  internal::ShimBootstrap bootstrap_;
  Inspection found_;
};

TEST_F(NodeChecksTest, InstancesTellWhereTheyAre) {
  EXPECT_THAT(Traits(std::chrono::seconds(60)), Contains(Pair("availability-zone", "us-east-1a")));
  EXPECT_EQ(MessageOf("same-network"), "PASS dl1.24xlarge in us-east-1a, placement group train");
}

TEST_F(NodeChecksTest, AServiceThatDoesNotAnswerKeepsNoStartFromBeingMade) {
  server_.Set("PUT /latest/api/token", {"", MetadataServer::Reply::kHang});
  Traits(milliseconds(20));
  EXPECT_THAT(MessageOf("same-network"), HasSubstr("SKIPPED the metadata service of the instance"));
  EXPECT_THAT(found_.problems, IsEmpty());
}

TEST_F(NodeChecksTest, WhoeverSkipsTheCheckAsksNobody) {
  launch_.add_skip_checks("same-network");
  Traits(std::chrono::seconds(60));
  EXPECT_THAT(server_.requests(), IsEmpty());
}

TEST_F(NodeChecksTest, VariablesThatWereFilledInAreToldWithTheirSource) {
  launch_.add_skip_checks("same-network");
  launch_.add_skip_checks("habana-files");
  bootstrap_.mutable_ranks(0)->add_env("GC_KERNEL_PATH=/k.so");
  internal::ShimFilled& filled = *bootstrap_.add_filled();
  filled.set_name("GC_KERNEL_PATH");
  filled.set_source("habanalabs.sh:3");
  EXPECT_THAT(Traits(milliseconds(1)),
              Contains(Pair("filled.GC_KERNEL_PATH", "habanalabs.sh:3 /k.so")));
}

}  // namespace
}  // namespace muster::testing
