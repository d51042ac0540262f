// What nodes find before a start, seen by whoever starts a job, and `coordinator check`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/integration/sandbox/command_run.h"
#include "tests/testing/metadata_server.h"
#include "tests/testing/sim_node.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Sandbox;

constexpr int kNotStarted = 120;

class RunChecks : public ::testing::Test {
 protected:
  RunChecks() {
    box_.Hosts(2, 1);
    box_.Write("probe.py", "import os; open('ran.' + os.environ['RANK'], 'w')\n");
  }
  // A job whose first node is told to use an interface.
  void WriteJob(const std::string& interface, const std::string& more = "") {
    box_.Write("job.yaml",
               "hostfile: hosts\nscript: probe.py\nenv:\n  HCCL_SOCKET_IFNAME: " + interface +
                   "\nnode_env:\n  node-2:\n    HCCL_SOCKET_IFNAME: lo\n" + more);
  }
  bool Ran() {
    struct stat info = {};
    return ::stat(box_.Path("ran.0").c_str(), &info) == 0 ||
           ::stat(box_.Path("ran.1").c_str(), &info) == 0;
  }

  Sandbox box_;
};

TEST_F(RunChecks, AnInterfaceThatANodeDoesNotHavePreventsTheStart) {
  WriteJob("ens32");
  CommandRun run = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(run.Wait(), kNotStarted) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("node-1"), HasSubstr("HCCL_SOCKET_IFNAME=ens32")));
  EXPECT_FALSE(Ran());
}

TEST_F(RunChecks, AnInterfaceThatItHasDoesNotAndADoubtIsAWarningForAllNodes) {
  WriteJob("lo");
  CommandRun run = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("[node-1-2] hccl-interface: HCCL_SOCKET_IFNAME=lo: lo reaches "
                                   "no other machine"));
  EXPECT_TRUE(Ran());
}

TEST_F(RunChecks, ChecksCanBeSkippedAndRequired) {
  WriteJob("ens32", "checks: {skip: [hccl-interface]}\n");
  CommandRun skipped = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(skipped.Wait(), 0) << skipped.err();
  WriteJob("lo", "checks: {require: [hccl-interface]}\n");
  CommandRun required = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(required.Wait(), kNotStarted) << required.err();
  WriteJob("lo", "checks: {skip: [hcl-interface]}\n");
  CommandRun unknown = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(unknown.Wait(), 2) << unknown.err();
  EXPECT_THAT(unknown.err(), HasSubstr("there is no check \"hcl-interface\"; there are hccl-"));
}

TEST_F(RunChecks, VariablesThatDifferAreAWarning) {
  box_.Write("job.yaml",
             "hostfile: hosts\nscript: probe.py\nnode_env: {node-2: {HCCL_OVER_OFI: \"1\"}}\n");
  CommandRun run = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("same-environment: HCCL_OVER_OFI differs: not set on node-1; 1 "
                                   "on node-2"));
}

TEST_F(RunChecks, CheckOfAJobSaysWhatAStartWould) {
  WriteJob("ens32");
  CommandRun check = box_.Run({"check", "--local", "job.yaml"});
  EXPECT_EQ(check.Wait(), kNotStarted) << check.err();
  EXPECT_THAT(check.out(), HasSubstr("[node-1] FAIL hccl-interface: HCCL_SOCKET_IFNAME=ens32"));
  EXPECT_THAT(check.out(), Not(HasSubstr("[node-2] FAIL")));

  box_.Write("job.yaml", "hostfile: hosts\nscript: missing.py\n");
  CommandRun script = box_.Run({"check", "--local", "job.yaml"});
  EXPECT_EQ(script.Wait(), kNotStarted) << script.err();
  EXPECT_THAT(script.out(), HasSubstr("[node-1-2] FAIL script: the script 'missing.py'"));

  // One cause, one message.
  box_.Write("job.yaml", "hostfile: hosts\ncommand: [python3]\ncwd: /no/such\n");
  CommandRun folder = box_.Run({"check", "--local", "job.yaml"});
  EXPECT_EQ(folder.Wait(), kNotStarted) << folder.err();
  EXPECT_THAT(folder.out(), HasSubstr("FAIL working-directory: "));
  EXPECT_THAT(folder.out(), Not(HasSubstr("software")));
}

TEST_F(RunChecks, CheckWithoutAJobTellsVersions) {
  CommandRun check = box_.Run({"check", "--local", "--hostfile", "hosts", "-o", "json", "--skip",
                               "memlock,open-files,shared-memory,disk"});
  EXPECT_EQ(check.Wait(), 0) << check.err();
  const nlohmann::json json = nlohmann::json::parse(check.out());
  EXPECT_EQ(json["ok"], true);
  ASSERT_EQ(json["nodes"].size(), 2u);
  EXPECT_EQ(json["nodes"][0]["error"], nullptr);
  EXPECT_NE(json["nodes"][0]["traits"]["python"], nullptr);
  EXPECT_NE(json["nodes"][0]["traits"]["kernel"], nullptr);
}

TEST_F(RunChecks, CheckLooksAtEveryCardOfANode) {
  SimNode node(box_.Path("sim"));
  node.AddCards({3, 1, 0});
  node.Add({.index = 3, .module = 2, .status = "In reset"});
  CommandRun check = box_.Run({"check", "--local", "--sysroot", "sim", "--hosts", "node-1"});
  EXPECT_EQ(check.Wait(), kNotStarted) << check.err();
  EXPECT_THAT(check.out(), AllOf(HasSubstr("[node-1] FAIL cards"), HasSubstr("module 2"),
                                 HasSubstr("In reset")));
}

TEST_F(RunChecks, CheckTellsWhatANodeLacksOfItsLineAndCardsThatNobodyCanHave) {
  SimNode node(box_.Path("sim"));
  node.AddCards({0, 1, 2, 2});
  CommandRun check = box_.Run({"check", "--local", "--sysroot", "sim", "--hosts", "node-1"});
  EXPECT_EQ(check.Wait(), 0) << check.err();
  EXPECT_THAT(check.out(), HasSubstr("[node-1] WARN cards: module id 2 is that of 2 cards"));
  box_.Write("four", "node-1 slots=4\n");
  CommandRun four = box_.Run({"check", "--local", "--sysroot", "sim", "--hostfile", "four"});
  EXPECT_EQ(four.Wait(), kNotStarted) << four.err();
  EXPECT_THAT(
      four.out(),
      HasSubstr("FAIL slots: four:1: node-1 asks for 4 cards, node node-1 has 2 cards (0-1)"));
}

// Prints what it was asked for, as hccl_demo does in its own words.
constexpr char kDemo[] = R"(import argparse, os, sys
parser = argparse.ArgumentParser()
for name in ('nranks', 'node_id', 'ranks_per_node', 'size', 'test', 'loop'): parser.add_argument('--' + name)
a = parser.parse_args()
assert a.nranks == '4' and a.ranks_per_node == '2' and os.environ['HCCL_COMM_ID'].count(':') == 1, a
open('demo.' + a.node_id, 'w').write(os.environ['HCCL_COMM_ID'])
if os.path.exists('broken') and a.node_id == '1': print('Exiting HCCL demo with code: 1')
if a.node_id == '0': print('[SUMMARY] Bandwidth : 37.1 GB/s')
)";

TEST_F(RunChecks, HcclDemoRunsAsAJobOnePerNode) {
  box_.Hosts(2, 2);
  box_.Write("run_hccl_demo.py", kDemo);
  CommandRun good =
      box_.Run({"check", "--local", "--hostfile", "hosts", "--hccl-demo", box_.Path("")});
  EXPECT_EQ(good.Wait(), 0) << good.err() << good.out();
  EXPECT_THAT(good.out(), HasSubstr("hccl_demo: 1 of 1 pairs passed"));
  EXPECT_EQ(box_.Read("demo.0"), box_.Read("demo.1"));
  box_.Write("broken", "");
  CommandRun bad =
      box_.Run({"check", "--local", "--hostfile", "hosts", "--hccl-demo", box_.Path("")});
  EXPECT_EQ(bad.Wait(), kNotStarted) << bad.err() << bad.out();
  EXPECT_THAT(bad.out(), HasSubstr("[node-1 <-> node-2] FAIL hccl-demo: "));
}

// Both ends of the real program meet at a port of the first.
constexpr char kPingPong[] = R"(#!/usr/bin/python3
import os, socket, subprocess, sys
words = sys.argv[1:]
assert words[:4] == ['-p', 'efa', '-e', 'rdm'] and words[5] == os.environ['MASTER_PORT'], words
if words[4] == '-B':
    if os.path.exists('BOX/broken'):
        child = subprocess.Popen(['sleep', '1000'])
        open('BOX/pid', 'w').write(str(child.pid))
        sys.exit(3)
    with socket.create_server(('', int(words[5]))) as server: server.accept()[0].sendall(b'pong')
else:
    assert words[4] == '-P', words
    with socket.create_connection((words[6], int(words[5]))) as server: assert server.recv(4) == b'pong'
    open('BOX/met', 'w').close()
)";

class RunPingPong : public RunChecks {
 protected:
  RunPingPong() {
    box_.Hosts(2, 2);
    node_.Write("/sys/class/infiniband/efa_0/node_type", "");
    node_.Write("/dev/infiniband/uverbs0", "");
  }
  void WriteProgram() {
    std::string text = kPingPong;
    for (size_t at = 0; (at = text.find("BOX", at)) != std::string::npos;) {
      text.replace(at, 3, box_.Path(""));
    }
    std::filesystem::create_directory(box_.Path("bin"));
    box_.Write("bin/fi_pingpong", text);
    ::chmod(box_.Path("bin/fi_pingpong").c_str(), 0755);
    box_.Set("PATH", box_.Path("bin") + ":/usr/bin:/bin");
  }
  CommandRun Check(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"check", "--local",   "--sysroot", "sim",        "--hostfile",
                                      "hosts", "--network", "--skip",    "efa,memlock"};
    words.insert(words.end(), more.begin(), more.end());
    return box_.Run(words);
  }

  SimNode node_{box_.Path("sim")};
};

TEST_F(RunPingPong, NodesWithEfaSendToEachOther) {
  WriteProgram();
  CommandRun check = Check();
  EXPECT_EQ(check.Wait(), 0) << check.err() << check.out();
  EXPECT_THAT(check.out(), HasSubstr("fi_pingpong: 1 of 1 pairs passed"));
  EXPECT_TRUE(box_.Has("met"));
}

TEST_F(RunPingPong, OneThatFailsIsToldAndLeavesNothingBehind) {
  WriteProgram();
  box_.Write("broken", "");
  CommandRun check = Check();
  EXPECT_EQ(check.Wait(), kNotStarted) << check.err();
  EXPECT_THAT(check.out(), AllOf(HasSubstr("fi_pingpong: 0 of 1 pairs passed"),
                                 HasSubstr("[node-1 <-> node-2] FAIL fi_pingpong: ")));
  const int child = std::stoi(box_.Read("pid"));
  EXPECT_NE(::kill(child, 0), 0);
}

TEST_F(RunPingPong, NodesWithoutTheProgramAreLeftOutAndSayHowToGetIt) {
  box_.Set("PATH", "/usr/bin:/bin");
  CommandRun check = Check();
  EXPECT_EQ(check.Wait(), 0) << check.err() << check.out();
  EXPECT_THAT(check.out(), AllOf(HasSubstr("[node-1] skipped fi_pingpong: "),
                                 HasSubstr("libfabric-bin"), Not(HasSubstr("pairs passed"))));
  node_.Remove("/sys/class/infiniband");
  CommandRun without = Check();
  EXPECT_EQ(without.Wait(), 0) << without.err();
  EXPECT_THAT(without.out(), Not(HasSubstr("fi_pingpong")));
}

TEST_F(RunChecks, TheCloudIsAskedAboutItsInstances) {
  testing::MetadataServer server;
  server.Start();
  SimNode node(box_.Path("sim"));
  node.Write("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
  box_.Unset("AWS_EC2_METADATA_DISABLED");
  box_.Set("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.endpoint());
  CommandRun check = box_.Run({"check", "--local", "--sysroot", "sim", "--hosts", "node-1", "-o",
                               "json", "--skip", "memlock"});
  EXPECT_EQ(check.Wait(), 0) << check.err() << check.out();
  const nlohmann::json traits = nlohmann::json::parse(check.out())["nodes"][0]["traits"];
  EXPECT_EQ(traits["availability-zone"], "us-east-1a");
  EXPECT_EQ(traits["placement-group"], "train");
  EXPECT_EQ(traits["instance-type"], "dl1.24xlarge");
}

TEST_F(RunChecks, RoundsOfTheNetworkTestMayBeLeftOut) {
  for (const std::vector<std::string>& network :
       {std::vector<std::string>{"--network"}, {"--network", "1"}, {"--network=1"}}) {
    std::vector<std::string> arguments = {"check", "--local", "--hosts", "a,b"};
    arguments.insert(arguments.end(), network.begin(), network.end());
    CommandRun check = box_.Run(arguments);
    EXPECT_EQ(check.Wait(), 0) << check.err();
    EXPECT_THAT(check.out(), HasSubstr("over 2 directions"));
  }
}

TEST_F(RunChecks, CheckNeedsToKnowWhichNodes) {
  EXPECT_EQ(box_.Run({"check", "--server", "unix:/nowhere"}).Wait(), 2);
  EXPECT_EQ(box_.Run({"check", "--all", "--hostfile", "hosts"}).Wait(), 2);
  CommandRun name = box_.Run({"check", "--local", "--skip", "memlok"});
  EXPECT_EQ(name.Wait(), 2);
  EXPECT_THAT(name.err(), HasSubstr("there is no check \"memlok\""));
}

}  // namespace
}  // namespace muster
