#include "common/config/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SettingsTest : public ::testing::Test {
 protected:
  static std::vector<SettingKey> Keys() {
    using Kind = SettingKey::Kind;
    const auto no_x = [](const std::string& value) -> std::string {
      return value == "x" ? "must not be x" : "";
    };
    return {{.name = "name", .check = no_x},
            {.name = "listen", .check = no_x, .may_be_empty = true},
            {.name = "root", .kind = Kind::kSwitch},
            {.name = "hosts", .kind = Kind::kList, .check = no_x}};
  }

  Diagnostics diagnostics_;
  Settings settings_{Keys()};
};

TEST_F(SettingsTest, TheFirstWhoSaysItHolds) {
  settings_.Give("name", {"flag"}, {"--name", 0}, diagnostics_);
  settings_.GiveFile("name: file\nroot: true\nhosts: [a, b]\n", "f.yaml", diagnostics_);
  settings_.Give("name", {"default"}, {"default", 0}, diagnostics_);
  settings_.Give("listen", {":7"}, {"default", 0}, diagnostics_);
  EXPECT_TRUE(diagnostics_.ok()) << diagnostics_.ErrorText();
  EXPECT_EQ(settings_.Text("name"), "flag");
  EXPECT_EQ(settings_.Text("listen"), ":7");
  EXPECT_TRUE(settings_.Switch("root"));
  EXPECT_THAT(settings_.List("hosts"), ElementsAre("a", "b"));
}

TEST_F(SettingsTest, EveryMistakeIsToldAtOnceWithItsPlace) {
  settings_.Give("name", {"x"}, {"--name", 0}, diagnostics_);
  settings_.GiveFile(
      "nam: 1\n"
      "name: x\n"
      "root: yes\n"
      "hosts: [a,\n"
      "  x]\n"
      "listen: {}\n"
      "name: again\n",
      "f.yaml", diagnostics_);
  EXPECT_EQ(diagnostics_.ErrorText(),
            "--name: name: must not be x\n"
            "f.yaml:1: unknown key 'nam' (did you mean 'name'?)\n"
            "f.yaml:2: name: must not be x\n"
            "f.yaml:3: root must be one of true, false, found 'yes'\n"
            "f.yaml:5: hosts: must not be x\n"
            "f.yaml:6: listen must be text, found a map\n"
            "f.yaml:7: key 'name' is given twice, first on line 2");
}

TEST_F(SettingsTest, AFileMaySayNothing) {
  settings_.GiveFile("", "f.yaml", diagnostics_);
  settings_.GiveFile("# name: commented out\n", "f.yaml", diagnostics_);
  EXPECT_TRUE(diagnostics_.ok()) << diagnostics_.ErrorText();
  EXPECT_EQ(settings_.Text("name"), "");
  EXPECT_FALSE(settings_.Switch("root"));
  EXPECT_THAT(settings_.List("hosts"), IsEmpty());
}

TEST_F(SettingsTest, EmptyIsAMistakeUnlessItMeansSomething) {
  settings_.GiveFile("name: \"\"\nlisten: \"\"\n", "f.yaml", diagnostics_);
  EXPECT_EQ(diagnostics_.ErrorText(), "f.yaml:1: name must not be empty");
}

TEST_F(SettingsTest, AFileThatIsNoMapIsTold) {
  settings_.GiveFile("- name\n", "f.yaml", diagnostics_);
  EXPECT_EQ(diagnostics_.ErrorText(),
            "f.yaml:1: the file is a map of keys such as 'state_dir: /srv/muster'");
}

TEST_F(SettingsTest, WhatIsShownReadsBackToTheSame) {
  const std::vector<std::string> hosts = {"a b",   "\"q\\", ":7443", "-", "plain",
                                          "tab\t", "# no",  "true",  "~", "\xc3\xa9"};
  settings_.Give("hosts", hosts, {"--host", 0}, diagnostics_);
  settings_.Give("listen", {""}, {"--listen", 0}, diagnostics_);
  settings_.Give("root", {"true"}, {"f.yaml", 3}, diagnostics_);
  Settings again(Keys());
  again.GiveFile(settings_.Render(), "shown", diagnostics_);
  EXPECT_TRUE(diagnostics_.ok()) << diagnostics_.ErrorText() << settings_.Render();
  EXPECT_EQ(again.List("hosts"), hosts);
  EXPECT_TRUE(again.Switch("root"));
  EXPECT_EQ(settings_.Render().substr(0, 10), "listen: \"\"");
  EXPECT_NE(settings_.Render().find("# f.yaml:3\n"), std::string::npos);
}

}  // namespace
}  // namespace muster
