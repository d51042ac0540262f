// Jobs that the documentation shows are what it says of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using testing::CommandRun;
using testing::Sandbox;
using Json = nlohmann::json;

constexpr char kFolder[] = "/root/optimum-habana/examples/language-modeling";

class Gpt2Xl : public ::testing::Test {
 protected:
  Gpt2Xl() { std::filesystem::copy(EXAMPLES "/gpt2_xl", box_.Path("gpt2_xl")); }

  Json Plan(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin() + 1, "--dry-run");
    CommandRun run = box_.Run(arguments);
    EXPECT_EQ(run.Wait(), 0) << run.err();
    return Json::parse(run.out(), nullptr, false);
  }

  // The words of the command in the guide that has `word`, without what stands before `spawn`.
  static std::vector<std::string> GuideCommand(const std::string& word) {
    std::stringstream page;
    page << std::ifstream(GAUDI_GUIDE).rdbuf();
    std::string text = page.str();
    for (size_t at; (at = text.find("\\\n")) != std::string::npos;) text.erase(at, 2);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const size_t spawn = line.find("$ coordinator spawn");
      if (spawn == std::string::npos || line.find(word) == std::string::npos) continue;
      std::vector<std::string> words;
      std::istringstream rest(line.substr(spawn + 14));
      for (std::string one; rest >> std::ws && !rest.eof();) {
        if (rest.peek() == '\'') {
          rest.get();
          std::getline(rest, one, '\'');
        } else {
          rest >> one;
        }
        words.push_back(one);
      }
      return words;
    }
    ADD_FAILURE() << "no command with " << word;
    return {};
  }

  Sandbox box_;
};

TEST_F(Gpt2Xl, TrainsOnEveryCardOfTwoNodes) {
  const Json plan = Plan({"submit", "gpt2_xl/job.yaml"});
  ASSERT_FALSE(plan.is_discarded());
  EXPECT_EQ(plan["world_size"], 16);
  EXPECT_EQ(plan["nodes"].size(), 2u);
  EXPECT_EQ(plan["nodes"][1]["host"], "node-2");
  EXPECT_EQ(plan["nodes"][1]["slots"], 8);
  EXPECT_EQ(plan["cwd"], kFolder);
  EXPECT_EQ(plan["argv"][0], "python3");
  EXPECT_EQ(plan["argv"][2], "run_clm.py");
  EXPECT_EQ(plan["argv"].back(), "--deepspeed=/shared/ds_config.json");
  EXPECT_EQ(plan["env"]["HCCL_OVER_OFI"], "1");
  EXPECT_EQ(
      plan["env"]["LD_LIBRARY_PATH"],
      "/root/hccl_ofi_wrapper:/opt/amazon/openmpi/lib:/opt/amazon/efa/lib:${LD_LIBRARY_PATH}");
  EXPECT_TRUE(plan["warnings"].empty()) << plan["warnings"];
}

TEST_F(Gpt2Xl, IsTheCommandOfTheGuide) {
  std::vector<std::string> typed = GuideCommand("--do_train");
  std::filesystem::copy_file(box_.Path("gpt2_xl/hostfile"), box_.Path("hostfile"));
  const Json by_flags = Plan(typed);
  const Json by_file = Plan({"submit", "gpt2_xl/job.yaml"});
  ASSERT_FALSE(by_flags.is_discarded() || by_file.is_discarded());
  // The file writes each flag and its value as one word.
  std::vector<std::string> split;
  for (const std::string word : by_file["argv"]) {
    const size_t equals = word.find('=');
    split.push_back(word.substr(0, equals));
    if (equals != std::string::npos) split.push_back(word.substr(equals + 1));
  }
  EXPECT_EQ(by_flags["argv"].get<std::vector<std::string>>(), split);
  EXPECT_EQ(by_flags["ranks"], by_file["ranks"]);
  EXPECT_EQ(by_flags["cwd"], by_file["cwd"]);
}

TEST_F(Gpt2Xl, IsEvaluatedOnOneCard) {
  const Json plan = Plan(GuideCommand("--do_eval"));
  ASSERT_FALSE(plan.is_discarded());
  EXPECT_EQ(plan["world_size"], 1);
  EXPECT_EQ(plan["nodes"][0]["host"], "node-1");
}

TEST_F(Gpt2Xl, ItsDeepspeedConfigurationIsJson) {
  std::ifstream file(box_.Path("gpt2_xl/ds_config.json"));
  const Json config = Json::parse(file, nullptr, false);
  ASSERT_FALSE(config.is_discarded());
  EXPECT_EQ(config["zero_optimization"]["stage"], 2);
}

}  // namespace
}  // namespace muster
