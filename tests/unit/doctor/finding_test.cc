#include "common/doctor/finding.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace muster {
namespace {

const Findings kMixed = {Good("disk", "much is free"), Doubtful("clock", "5 s apart", "set it"),
                         Bad("tls", "line 1\nline\x1b[31m 2")};

TEST(Findings, AreOneLineEach) {
  EXPECT_EQ(RenderFindings(kMixed),
            "ok    disk   much is free\n"
            "warn  clock  5 s apart; to do: set it\n"
            "FAIL  tls    line 1 line [31m 2\n");
  EXPECT_EQ(RenderFindings({}), "");
}

TEST(Findings, AreTheSameAsJson) {
  const auto json = nlohmann::json::parse(FindingsToJson(kMixed));
  EXPECT_FALSE(json["ok"]);
  ASSERT_EQ(json["checks"].size(), 3u);
  EXPECT_EQ(json["checks"][1]["check"], "clock");
  EXPECT_EQ(json["checks"][1]["result"], "warn");
  EXPECT_EQ(json["checks"][1]["fix"], "set it");
  EXPECT_EQ(json["checks"][2]["result"], "fail");
  // What is no UTF-8 is no reason to print nothing.
  EXPECT_FALSE(nlohmann::json::parse(FindingsToJson({Good("state", "/tmp/\xff")})).is_discarded());
}

TEST(Findings, FailWhenOneDoes) {
  EXPECT_FALSE(AllWork(kMixed));
  EXPECT_TRUE(AllWork({kMixed[0], kMixed[1]}));
  EXPECT_EQ(Failed("store", absl::DataLossError("it is damaged")).text, "it is damaged");
}

}  // namespace
}  // namespace muster
