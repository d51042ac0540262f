// `coordinator serve` and its configuration file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using testing::CommandRun;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Sandbox;
using testing::WaitUntil;

class ServeConfig : public ::testing::Test {
 protected:
  ServeConfig() {
    box_.Unset("MUSTER_LOCAL");
    box_.Set("MUSTER_CONFIG_DIR", box_.path());
  }
  Sandbox box_;
};

TEST_F(ServeConfig, IsReadFromItsPlaceAndFlagsWin) {
  box_.Write("coordinator.yaml", "state_dir: of-file\nsocket: c.sock\nlisten: \"\"\nlog: warn\n");
  CommandRun shown = box_.Run({"serve", "--check-config", "--state-dir", "of-flag"});
  EXPECT_EQ(shown.Wait(), 0) << shown.err();
  EXPECT_THAT(shown.out(), HasSubstr("# configuration file: " + box_.Path("coordinator.yaml")));
  EXPECT_THAT(shown.out(), ContainsRegex("state_dir: of-flag +# --state-dir\n"));
  EXPECT_THAT(shown.out(), ContainsRegex("socket: c.sock +# [^ ]*/coordinator.yaml:2\n"));
  EXPECT_THAT(shown.out(), ContainsRegex("listen: \"\" +# [^ ]*/coordinator.yaml:3\n"));
  EXPECT_FALSE(box_.Has("of-flag")) << "it starts nothing";

  CommandRun init = box_.Run({"init", "--host", "127.0.0.1"});
  EXPECT_EQ(init.Wait(), 0) << init.err();
  EXPECT_TRUE(box_.Has("of-file/trust"));

  CommandRun serve = box_.Start({"serve"});
  EXPECT_TRUE(box_.WaitFor("c.sock"));
  CommandRun nodes = box_.Run({"nodes", "--server", "unix:" + box_.Path("c.sock")});
  EXPECT_EQ(nodes.Wait(), 0) << nodes.err();
  serve.Send(SIGTERM);
  EXPECT_EQ(serve.Wait(), 0);
  EXPECT_EQ(serve.err(), "") << "the file says log: warn";
  EXPECT_TRUE(box_.Has("of-file/store.db"));
}

TEST_F(ServeConfig, IsRefusedWithEveryMistakeAndItsLine) {
  box_.Write("coordinator.yaml", "stat_dir: x\n\nlisten: nowhere\nadvertise: [\"head\"]\n");
  for (const char* command : {"serve", "init"}) {
    CommandRun run = box_.Run({command});
    EXPECT_EQ(run.Wait(), 2);
    EXPECT_THAT(run.err(), HasSubstr("coordinator.yaml:1: unknown key 'stat_dir' (did you mean"));
    EXPECT_THAT(run.err(), HasSubstr("coordinator.yaml:3: listen: 'nowhere' is no address"));
    EXPECT_THAT(run.err(), HasSubstr("coordinator.yaml:4: advertise: "));
  }
}

TEST_F(ServeConfig, WhatRootMakesInTheDirectoryOfAnotherUserBelongsToThatUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::mkdir(box_.Path("state").c_str(), 0700), 0);
  ASSERT_EQ(::chown(box_.Path("state").c_str(), kNobody, kNobody), 0);
  // The way to it.
  ASSERT_EQ(::chmod(box_.path().c_str(), 0711), 0);
  CommandRun init = box_.Run({"init", "--state-dir", box_.Path("state"), "--host", "127.0.0.1"});
  EXPECT_EQ(init.Wait(), 0) << init.err();
  struct stat made = {};
  ASSERT_EQ(::stat(box_.Path("state/trust").c_str(), &made), 0);
  EXPECT_EQ(made.st_uid, kNobody);
  EXPECT_EQ(made.st_gid, kNobody);

  // What root would leave there that user could not change.
  for (const std::string program : {"coordinator", "agent"}) {
    CommandRun run = box_.StartProgram(
        Sandbox::Programs() + "/" + program,
        {program == "agent" ? "run" : "serve", "--state-dir", box_.Path("state")});
    EXPECT_EQ(run.Wait(), 2);
    EXPECT_THAT(run.err(), HasSubstr("state belongs to nobody"));
  }
  EXPECT_FALSE(box_.Has("state/lock"));
}

}  // namespace
}  // namespace muster
