#include "agent/daemon/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CommandLine Parse(std::vector<const char*> arguments, std::vector<const char*> environ = {}) {
  arguments.insert(arguments.begin(), "agent");
  environ.push_back(nullptr);
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data(), environ.data());
}

TEST(ParseCommandLine, ReadsEveryFlagOfRun) {
  const CommandLine line =
      Parse({"run", "--node-id", "n1", "--coordinator", "unix:/s", "--state-dir", "/d", "--slots",
             "3", "--address", "127.0.0.1", "--address", "::1", "--ephemeral"},
            {"HOME=/home/alice", "MUSTER_SLOTS=9", "MUSTER_BIN_DIR=/opt/bin",
             "MUSTER_LEASE_DIR=/leases", "FAKE_UNKILLABLE_RANK=1"});
  ASSERT_FALSE(line.text.has_value()) << *line.text;
  EXPECT_EQ(line.config.node_id, NodeId("n1"));
  EXPECT_EQ(line.config.coordinator, "unix:/s");
  EXPECT_EQ(line.config.state_directory, "/d");
  EXPECT_TRUE(line.config.ephemeral);
  EXPECT_EQ(line.config.slots, 3u);
  EXPECT_THAT(line.config.addresses, ElementsAre("127.0.0.1", "::1"));
  EXPECT_EQ(line.config.shim_binary, "/opt/bin/muster-shim");
  EXPECT_EQ(line.config.lease_directory, "/leases");
  EXPECT_EQ(line.config.home, "/home/alice");
  EXPECT_EQ(line.config.environ.size(), 5u);
  EXPECT_EQ(line.config.fake_unkillable_rank, 1u);
}

TEST(ParseCommandLine, TakesWhereCardsAreLookedFor) {
  const TempFolder root;
  const std::string variable = "MUSTER_SYSROOT=" + root.path();
  const CommandLine given = Parse({"run", "--coordinator", "unix:/s", "--state-dir", "/d",
                                   "--devices", "gaudi", "--sysroot", root.path().c_str()},
                                  {"HOME=/h", "MUSTER_SYSROOT=/nowhere"});
  ASSERT_FALSE(given.text.has_value()) << *given.text;
  EXPECT_EQ(given.config.devices, "gaudi");
  EXPECT_EQ(given.config.sysroot, root.path());
  const CommandLine plain = Parse({"run", "--coordinator", "unix:/s", "--state-dir", "/d"},
                                  {"HOME=/h", variable.c_str()});
  EXPECT_EQ(plain.config.devices, "auto");
  EXPECT_EQ(plain.config.sysroot, root.path());
  for (const auto& [flag, value] : {std::pair("--devices", "cuda"), {"--sysroot", "/nowhere/x"}}) {
    const CommandLine bad = Parse({"run", "--coordinator", "unix:/s", flag, value}, {"HOME=/h"});
    ASSERT_TRUE(bad.text.has_value()) << flag;
    EXPECT_TRUE(bad.error);
    EXPECT_THAT(*bad.text, HasSubstr(value));
  }
}

TEST(ParseCommandLine, ASimulatedNodeThatIsNoneIsRefusedWithWhoNamedIt) {
  const std::vector<const char*> run = {"run", "--coordinator", "unix:/s"};
  std::vector<const char*> flag = run;
  flag.insert(flag.end(), {"--sysroot", "/nowhere/x"});
  const CommandLine by_flag = Parse(flag, {"HOME=/h"});
  ASSERT_TRUE(by_flag.error);
  EXPECT_THAT(*by_flag.text, HasSubstr("--sysroot: '/nowhere/x' does not exist: name the folder"));
  const CommandLine by_variable = Parse(run, {"HOME=/h", "MUSTER_SYSROOT=/dev/null"});
  ASSERT_TRUE(by_variable.error);
  EXPECT_THAT(*by_variable.text, HasSubstr("MUSTER_SYSROOT: '/dev/null' is not a folder"));
}

TEST(ParseCommandLine, AnAgentThatJoinsForOneJobHasAStateDirectoryOfItsOwn) {
  const std::vector<const char*> join = {"run",       "--ephemeral",  "--join",
                                         "head:7443", "--token-file", "token"};
  EXPECT_EQ(Parse(join, {"HOME=/h"}).config.state_directory, "");
  std::vector<const char*> told = join;
  told.insert(told.end(), {"--state-dir", "/d"});
  EXPECT_EQ(Parse(told, {"HOME=/h"}).config.state_directory, "/d");
  EXPECT_EQ(Parse(told, {"HOME=/h"}).config.first_join->state_directory, "/d");
}

TEST(ParseCommandLine, TakesUnderscoresForDashesInNamesOnly) {
  const CommandLine line =
      Parse({"run", "--node_id=a_b", "--coordinator=unix:/s_t", "--state_dir", "/x_y"});
  ASSERT_FALSE(line.text.has_value()) << *line.text;
  EXPECT_EQ(line.config.node_id, NodeId("a_b"));
  EXPECT_EQ(line.config.coordinator, "unix:/s_t");
  EXPECT_EQ(line.config.state_directory, "/x_y");
}

TEST(ParseCommandLine, UsesTheEnvironmentWhereFlagsSayNothing) {
  const CommandLine line =
      Parse({"run", "--coordinator", "unix:/s"}, {"MUSTER_SLOTS=5", "STATE_DIRECTORY=/a:/b"});
  ASSERT_FALSE(line.text.has_value()) << *line.text;
  EXPECT_EQ(line.config.slots, 5u);
  EXPECT_EQ(line.config.state_directory, "/a");
  EXPECT_FALSE(line.config.node_id.empty());
  EXPECT_THAT(line.config.shim_binary, HasSubstr("/muster-shim"));
  EXPECT_FALSE(line.config.fake_unkillable_rank.has_value());
}

TEST(ParseCommandLine, AnswersVersionAndHelpOnStdout) {
  const CommandLine version = Parse({"--version"});
  EXPECT_THAT(version.text.value_or(""), HasSubstr("agent "));
  EXPECT_FALSE(version.error);
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(Parse({"run", "--help"}).text.value_or(""), HasSubstr("--node-id"));
}

TEST(ParseCommandLine, RefusesBadInputAndNamesIt) {
  const struct {
    std::vector<const char*> arguments;
    std::vector<const char*> environ;
    const char* named;
  } cases[] = {
      {{}, {}, "subcommand"},
      {{"run", "--coordinator", "http://x"}, {}, "expected HOST:PORT"},
      {{"join"}, {}, "ADDRESS"},
      {{"join", "head:7443"}, {}, "token"},
      {{"join", "head:7443", "tk1.x", "--token-file", "f"}, {}, "token-file"},
      {{"run", "--coordinator", "unix:/s", "--slots", "0"}, {}, "--slots"},
      {{"run", "--coordinator", "unix:/s"}, {"MUSTER_SLOTS=x"}, "MUSTER_SLOTS"},
      {{"run", "--coordinator", "unix:/s", "--address", "node-1"}, {}, "--address"},
      {{"run", "--coordinator", "unix:/s", "--node-id", "a b"}, {}, "--node-id"},
      {{"run", "--coordinator", "unix:/s", "--node-id", ""}, {}, "--node-id"},
      {{"run", "--coordinator", "unix:/s", "--what"}, {}, "--what"},
      {{"run", "--coordinator", "unix:/s"}, {"FAKE_UNKILLABLE_RANK=x"}, "FAKE_UNKILLABLE_RANK"},
  };
  for (const auto& one : cases) {
    const CommandLine line = Parse(one.arguments, one.environ);
    EXPECT_THAT(line.text.value_or(""), HasSubstr(one.named));
    EXPECT_TRUE(line.error) << one.named;
    EXPECT_EQ(line.exit_code, 2) << one.named;
  }
}

class AgentFile : public ::testing::Test {
 protected:
  AgentFile() {
    std::ofstream(path_) << "node_id: from-file\nslots: 6\nstate_dir: /of/file\n"
                            "addresses: [192.0.2.1]\nallow_users_file: /of/list\n"
                            "allow_users: [alice]\nallow_root: true\njob_slice: of-file.slice\n"
                            "log: debug\n";
  }

  TempFolder folder_;
  const std::string path_ = folder_.path() + "/agent.yaml";
  const std::string directory_ = "MUSTER_CONFIG_DIR=" + folder_.path();
};

TEST_F(AgentFile, HoldsWhereNobodyWeightierSaysOtherwise) {
  const CommandLine line = Parse({"run", "--config", path_.c_str(), "--slots", "3"},
                                 {"STATE_DIRECTORY=/of/manager", "MUSTER_SLOTS=9"});
  ASSERT_FALSE(line.text.has_value()) << *line.text;
  EXPECT_EQ(line.config.node_id, NodeId("from-file"));
  EXPECT_EQ(line.config.slots, 3u);
  EXPECT_EQ(line.config.state_directory, "/of/file");
  EXPECT_THAT(line.config.addresses, ElementsAre("192.0.2.1"));
  EXPECT_EQ(line.config.allow_file, "/of/list");
  EXPECT_THAT(line.config.allowed_users, ElementsAre("alice", "root"));
  EXPECT_EQ(line.config.job_slice, "of-file.slice");
  EXPECT_EQ(line.config.log_level, "debug");
}

TEST_F(AgentFile, IsReadFromItsPlaceAlsoByJoinButNotByTheAgentOfOneJob) {
  EXPECT_EQ(Parse({"run"}, {directory_.c_str()}).config.state_directory, "/of/file");
  const CommandLine join = Parse({"join", "head:7443", "tk1.x"}, {directory_.c_str()});
  ASSERT_TRUE(join.join.has_value());
  EXPECT_EQ(join.join->state_directory, "/of/file");
  EXPECT_EQ(join.join->node_id, NodeId("from-file"));
  EXPECT_EQ(Parse({"run", "--ephemeral", "--state-dir", "/d"}, {directory_.c_str()}).config.slots,
            8u);
  EXPECT_EQ(Parse({"run", "--config", ""}, {directory_.c_str()}).config.slots, 8u);
}

TEST_F(AgentFile, IsShownWithWhoSaysWhat) {
  const CommandLine line =
      Parse({"run", "--check-config", "--slots", "3"}, {directory_.c_str(), "MUSTER_LOG=warn"});
  EXPECT_EQ(line.exit_code, 0);
  EXPECT_FALSE(line.error);
  const std::string text = line.text.value_or("");
  EXPECT_THAT(text, HasSubstr("# configuration file: " + path_ + "\n"));
  EXPECT_THAT(text, ContainsRegex("node_id: from-file +# [^ ]*/agent.yaml:1\n"));
  EXPECT_THAT(text, ContainsRegex("slots: 3 +# --slots\n"));
  EXPECT_THAT(text, ContainsRegex("log: warn +# MUSTER_LOG\n"));
  EXPECT_THAT(text, ContainsRegex("coordinator: \"\" +# default\n"));
}

TEST_F(AgentFile, IsRefusedWithEveryMistakeAndItsLine) {
  std::ofstream(path_) << "slots: many\nnodeid: a\n";
  const CommandLine line = Parse({"run", "--address", "here"}, {directory_.c_str()});
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_TRUE(line.error);
  EXPECT_EQ(line.text.value_or(""),
            "agent: --address: addresses: expected a numeric IPv4 or IPv6 address, got \"here\"\n" +
                path_ + ":1: slots: expected a number from 1 to 4096, got \"many\"\n" + path_ +
                ":2: unknown key 'nodeid' (did you mean 'node_id'?)\n");
  EXPECT_THAT(Parse({"run", "--config", "/no/such"}).text.value_or(""),
              HasSubstr("/no/such: cannot be read"));
}

TEST(JobSlice, IsThatOfThePackageUnlessTheFileNamesAnotherOrNone) {
  const TempFolder folder;
  const std::string path = folder.path() + "/agent.yaml";
  const auto parse = [&](const char* text) {
    std::ofstream(path) << text << std::flush;
    return Parse({"run", "--coordinator", "unix:/s", "--config", path.c_str()});
  };
  EXPECT_EQ(parse("slots: 1\n").config.job_slice, "muster-jobs.slice");
  EXPECT_EQ(parse("job_slice: a-b.slice\n").config.job_slice, "a-b.slice");
  EXPECT_EQ(parse("job_slice: \"\"\n").config.job_slice, "");
  EXPECT_THAT(parse("job_slice: a/b.slice\n").text.value_or(""), HasSubstr("agent.yaml:1: "));
}

}  // namespace
}  // namespace muster
