// What people and programs see of a check.
#include "coordinator/cli/check_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

class CheckViewTest : public ::testing::Test {
 protected:
  v1::CheckedNode& Add(const std::string& host) {
    v1::CheckNodesResponse response;
    response.mutable_node()->set_host(host);
    found_.Take(response);
    return found_.nodes.back();
  }
  static void Find(v1::NodeReport& report, v1::Verdict verdict, const std::string& check,
                   const std::string& message, const std::string& fix = "") {
    v1::CheckResult& result = *report.add_results();
    result.set_check(check);
    result.set_verdict(verdict);
    result.set_message(message);
    result.set_fix(fix);
  }
  void Pair(const std::string& from, const std::string& to, uint64_t bytes) {
    v1::CheckNodesResponse response;
    response.mutable_pair()->set_from(from);
    response.mutable_pair()->set_to(to);
    response.mutable_pair()->mutable_result()->set_verdict(v1::PASS);
    response.mutable_pair()->mutable_rate()->set_bytes(bytes);
    response.mutable_pair()->mutable_rate()->mutable_duration()->set_seconds(1);
    found_.Take(response);
  }

  CheckedCluster found_;
};

TEST_F(CheckViewTest, GoodNodesShareOneLine) {
  for (const char* host : {"node9", "node2", "node1", "node3"}) {
    Find(*Add(host).mutable_report(), v1::PASS, "disk", "");
  }
  found_.Sort();
  EXPECT_EQ(RenderCheck(found_), "[node1-3,9] ok\n");
  EXPECT_FALSE(found_.failed());
}

TEST_F(CheckViewTest, FindingsAreFoldedWithWarningsFirst) {
  Add("node1");
  Find(*Add("node2").mutable_report(), v1::WARN, "memlock", "64 KiB only", "ulimit -l unlimited");
  Find(*Add("node3").mutable_report(), v1::WARN, "memlock", "64 KiB only", "ulimit -l unlimited");
  Find(*Add("node4").mutable_report(), v1::FAIL, "script", "train.py\ncannot be read");
  Add("node5").set_error("no node serves it");
  Find(found_.cluster, v1::WARN, "same-software", "torch differs");
  EXPECT_EQ(RenderCheck(found_),
            "[node1] ok\n"
            "[node2-3] WARN memlock: 64 KiB only (fix: ulimit -l unlimited)\n"
            "[node4] FAIL script: train.py cannot be read\n"
            "[node5] FAIL contact: no node serves it\n"
            "[all] WARN same-software: torch differs\n");
  EXPECT_TRUE(found_.failed());
}

TEST_F(CheckViewTest, WarningsAreNoFailure) {
  Find(*Add("node1").mutable_report(), v1::WARN, "disk", "little");
  EXPECT_FALSE(found_.failed());
  Find(found_.cluster, v1::FAIL, "same-driver", "differs");
  EXPECT_TRUE(found_.failed());
}

TEST_F(CheckViewTest, SlowAndBrokenDirectionsAreNamed) {
  Pair("node1", "node2", 1'200'000'000);
  Pair("node2", "node1", 1'100'000'000);
  Pair("node1", "node3", 400'000'000);
  v1::CheckNodesResponse broken;
  broken.mutable_pair()->set_from("node3");
  broken.mutable_pair()->set_to("node1");
  broken.mutable_pair()->mutable_result()->set_check("network");
  broken.mutable_pair()->mutable_result()->set_verdict(v1::FAIL);
  broken.mutable_pair()->mutable_result()->set_message("refused");
  found_.Take(broken);
  const std::string text = RenderCheck(found_);
  EXPECT_THAT(text, HasSubstr("network: median 1.1 GB/s over 4 directions\n"));
  EXPECT_THAT(text, HasSubstr("[node1 -> node3] WARN network: 400 MB/s, less than half"));
  EXPECT_THAT(text, HasSubstr("[node3 -> node1] FAIL network: refused"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("node2 ->")));
  EXPECT_TRUE(found_.failed());
}

TEST_F(CheckViewTest, JsonHasEverything) {
  v1::CheckedNode& node = Add("node1");
  node.set_node_id("node-1");
  Find(*node.mutable_report(), v1::PASS, "disk", "");
  v1::NodeTrait& trait = *node.mutable_report()->add_traits();
  trait.set_name("python");
  trait.set_value("3.11.2");
  Pair("node1", "node2", 500);
  const nlohmann::json json = nlohmann::json::parse(CheckToJson(found_));
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["nodes"][0]["host"], "node1");
  EXPECT_EQ(json["nodes"][0]["error"], nullptr);
  EXPECT_EQ(json["nodes"][0]["results"][0]["verdict"], "ok");
  EXPECT_EQ(json["nodes"][0]["traits"]["python"], "3.11.2");
  EXPECT_EQ(json["network"][0]["bytes_per_second"], 500.0);
}

}  // namespace
}  // namespace muster::testing
