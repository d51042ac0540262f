// The recipe of docs/reference.md for a simulated node, pasted into a shell as it stands there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Sandbox;

// The blocks of shell commands between the heading `title` and the next one.
std::vector<std::string> BlocksOf(const std::string& title) {
  std::stringstream page;
  page << std::ifstream(EXAMPLES "/../docs/reference.md").rdbuf();
  std::string text = page.str();
  text.erase(0, text.find("\n### " + title + "\n") + 1);
  text.erase(std::min(text.find("\n## "), text.size()));
  std::vector<std::string> blocks;
  for (size_t at; (at = text.find("```sh\n")) != std::string::npos;) {
    text.erase(0, at + 6);
    blocks.push_back(text.substr(0, text.find("```")));
  }
  return blocks;
}

class SimulatedNode : public ::testing::Test {
 protected:
  SimulatedNode() {
    box_.Unset("MUSTER_SYSROOT");
    box_.Set("PATH", Sandbox::Programs() + ":" + std::getenv("PATH"));
  }
  CommandRun Paste(const std::string& commands) {
    CommandRun run = box_.StartProgram("/bin/sh", {"-ec", commands});
    run.Wait();
    return run;
  }

  Sandbox box_;
};

TEST_F(SimulatedNode, OfTheReferenceGivesWhatIsPromisedThere) {
  const std::vector<std::string> blocks = BlocksOf("A simulated node");
  ASSERT_EQ(blocks.size(), 3u);
  CommandRun made = Paste(blocks[0]);
  ASSERT_EQ(made.Wait(), 0) << made.err();

  CommandRun good = Paste(blocks[1]);
  EXPECT_EQ(good.Wait(), 0) << good.err();
  EXPECT_THAT(good.out(), Not(HasSubstr("FAIL")));
  for (int card = 0; card < 8; ++card) {
    const std::string number = std::to_string(card);
    EXPECT_THAT(good.out(),
                HasSubstr("[" + number + "@node-1] card " + number + " of 0,1,2,3,4,5,6,7\n"));
  }

  CommandRun bad = Paste(blocks[2]);
  EXPECT_EQ(bad.Wait(), 120) << bad.err();
  EXPECT_THAT(bad.err(),
              HasSubstr("card-status: module 3 (0000:13:00.0) is not ready, its status is "
                        "\"In reset\""));
  EXPECT_THAT(bad.out(), Not(HasSubstr("card 0 of")));
}

}  // namespace
}  // namespace muster
