// Jobs on simulated nodes with cards, all the way from the command to the rank: which cards ranks
// get, and what is refused.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/io/unique_fd.h"
#include "tests/integration/sandbox/command_run.h"
#include "tests/testing/sim_node.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Sandbox;

const std::vector<uint32_t> kMixed = {3, 7, 0, 5, 1, 6, 2, 4};

class RunCards : public ::testing::Test {
 protected:
  RunCards() {
    box_.Write("r.py", R"(import os
e = os.environ.get
open('started.' + e('RANK'), 'w').close()
print('rank', e('RANK'), 'local', e('LOCAL_RANK'), 'visible', e('HABANA_VISIBLE_MODULES'), 'module', e('HLS_MODULE_ID'))
)");
    box_.Unset("MUSTER_SYSROOT");
  }
  CommandRun Spawn(const std::string& hosts, std::vector<std::string> flags = {}) {
    box_.Write("hosts", hosts);
    std::vector<std::string> words = {"spawn", "--sysroot", "sim", "--hostfile", "hosts"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back("r.py");
    return box_.Run(words);
  }
  void ExpectRefused(CommandRun run, const std::vector<std::string>& texts) {
    EXPECT_EQ(run.Wait(), 120) << run.err();
    for (const std::string& text : texts) EXPECT_THAT(run.err(), HasSubstr(text));
    EXPECT_FALSE(box_.Has("started.0"));
  }

  Sandbox box_;
  SimNode node_{box_.Path("sim")};
};

TEST_F(RunCards, AFolderOfASimulatedNodeThatIsNoneIsRefusedAtOnce) {
  box_.Write("file", "");
  box_.Write("hosts", "node-1 slots=1\n");
  const std::vector<std::vector<std::string>> commands = {
      {"spawn", "--hostfile", "hosts", "r.py"}, {"check", "--local", "--hosts", "node-1"}};
  for (const std::vector<std::string>& command : commands) {
    for (const auto& [name, found] :
         {std::pair("gone", "'gone' does not exist"), {"file", "'file' is not a folder"}}) {
      std::vector<std::string> words = command;
      words.insert(words.begin() + 1, {"--sysroot", name});
      CommandRun by_flag = box_.Run(words);
      EXPECT_EQ(by_flag.Wait(), 2) << by_flag.err();
      EXPECT_THAT(by_flag.err(), HasSubstr(std::string("--sysroot: ") + found));
      EXPECT_THAT(by_flag.err(), HasSubstr("leave the option out"));
      box_.Set("MUSTER_SYSROOT", name);
      CommandRun by_variable = box_.Run(command);
      EXPECT_EQ(by_variable.Wait(), 2) << by_variable.err();
      EXPECT_THAT(by_variable.err(), HasSubstr(std::string("MUSTER_SYSROOT: ") + found));
      EXPECT_THAT(by_variable.err(), HasSubstr("unset the variable"));
      box_.Unset("MUSTER_SYSROOT");
    }
  }
  EXPECT_FALSE(box_.Has("started.0"));
}

TEST_F(RunCards, AFolderOfASimulatedNodeIsRefusedWhereAgentsRunAlready) {
  box_.Write("hosts", "node-1 slots=1\n");
  const std::vector<std::vector<std::string>> commands = {
      {"spawn", "--server", "unix:/nowhere", "--sysroot", "sim", "--hostfile", "hosts", "r.py"},
      {"check", "--server", "unix:/nowhere", "--sysroot", "sim", "--hosts", "node-1"}};
  for (const std::vector<std::string>& command : commands) {
    CommandRun run = box_.Run(command);
    EXPECT_EQ(run.Wait(), 2) << run.err();
    EXPECT_THAT(run.err(), AllOf(HasSubstr("--sysroot works with --local only"),
                                 HasSubstr("agent run --sysroot")));
  }
}

TEST_F(RunCards, RanksGetTheModulesAndNotTheIndexes) {
  node_.AddCards(kMixed);
  CommandRun run = Spawn("node-1 slots=4\n");
  EXPECT_EQ(run.Wait(), 0) << run.err();
  for (const char* line :
       {"rank 0 local 0 visible 0,1,2,3 module 0", "rank 3 local 3 visible 0,1,2,3 module 3"}) {
    EXPECT_THAT(run.out(), HasSubstr(line));
  }
  EXPECT_THAT(run.err(), Not(HasSubstr("not a group")));
}

TEST_F(RunCards, TheProfileOfTheNodeFillsWhatNobodySetsAndThatIsTold) {
  node_.AddCards({0, 1});
  for (const char* name : {"GC_KERNEL_PATH", "HABANA_LOGS"}) box_.Unset(name);
  box_.Write("kernels.so", "");
  node_.Write("/etc/profile.d/habanalabs.sh", "export GC_KERNEL_PATH=" + box_.Path("kernels.so") +
                                                  "\nexport HABANA_LOGS=$(mktemp -d)\n");
  box_.Write("env.py",
             "import os\nprint(os.environ['GC_KERNEL_PATH'], os.environ.get('HABANA_LOGS'))\n");
  box_.Write("job.yaml", "hosts: [{host: node-1, slots: 2}]\nscript: env.py\nlog_dir: logs\n");
  CommandRun run = box_.Run({"submit", "--local", "--sysroot", "sim", "job.yaml"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr(box_.Path("kernels.so") + " None"));
  const std::string job = std::filesystem::read_symlink(box_.Path("logs/latest"));
  const auto status = nlohmann::json::parse(box_.Run({"status", job, "-o", "json"}).out());
  const nlohmann::json& filled = status["nodes"][0]["filled_env"];
  EXPECT_EQ(filled["GC_KERNEL_PATH"]["source"], "/etc/profile.d/habanalabs.sh:1");
  EXPECT_EQ(filled["GC_KERNEL_PATH"]["value"], box_.Path("kernels.so"));
  EXPECT_EQ(filled.size(), 1u);
  EXPECT_THAT(box_.Run({"explain", job}).out(), HasSubstr("agent /etc/profile.d/habanalabs.sh:1"));
}

TEST_F(RunCards, EveryNodeHasATreeOfItsOwn) {
  SimNode first(box_.Path("sim/node-1"));
  first.AddCards({6, 4});
  SimNode second(box_.Path("sim/node-2"));
  second.AddCards({1, 0});
  CommandRun run = Spawn("node-1\nnode-2\n");
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr("rank 1 local 1 visible 4,6 module 6"),
                               HasSubstr("rank 2 local 0 visible 0,1 module 0")));
}

TEST_F(RunCards, OneRankIsFreeToTakeTheCardThatItMaySee) {
  node_.AddCards(kMixed);
  CommandRun run = Spawn("node-1 slots=1\n");
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("visible 0 module None"));
  CommandRun chosen = Spawn("node-1 slots=8\n", {"--include", "node-1:5"});
  EXPECT_EQ(chosen.Wait(), 0) << chosen.err();
  EXPECT_THAT(chosen.out(), HasSubstr("visible 5 module 5"));
}

TEST_F(RunCards, PlainSlotsAreToBeHadBesideCards) {
  node_.AddCards({0, 1});
  CommandRun run = Spawn("node-1 slots=3\n", {"--devices", "none"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("rank 2 local 2 visible None module None"));
}

TEST_F(RunCards, ANodeWithoutCardsIsRefusedToAJobThatWantsThem) {
  ExpectRefused(Spawn("node-1 slots=2\n", {"--devices", "gaudi"}), {"node node-1 has none"});
}

TEST_F(RunCards, MoreSlotsThanCardsAreRefused) {
  node_.AddCards({6, 4, 7, 5});
  ExpectRefused(Spawn("node-1 slots=8\n"),
                {"hosts:1: node-1 asks for 8 cards", "has 4 cards (4-7)"});
}

TEST_F(RunCards, SevenCardsAndADoubleModuleIdAreTold) {
  node_.AddCards({0, 1, 2, 3, 4, 5, 6});
  node_.Add({.index = 7, .module = 6});
  ExpectRefused(Spawn("node-1 slots=8\n"),
                {"node node-1 has 6 cards (0-5)", "module id 6 is that of 2 cards",
                 SimNode::PciAddress(6), SimNode::PciAddress(7)});
}

TEST_F(RunCards, CardsThatCannotBeUsedAreNamed) {
  node_.AddCards(kMixed);
  node_.SetStatus(1, "Disabled");
  node_.SetModule(2, "");
  ExpectRefused(Spawn("node-1 slots=8\n"),
                {"node node-1 has 6 cards (1-6)",
                 "the card of index 1 at " + SimNode::PciAddress(1) + ", module 7",
                 "index 2 at " + SimNode::PciAddress(2)});
  CommandRun run = Spawn("node-1 slots=4\n");
  EXPECT_EQ(run.Wait(), 0) << run.err();
}

TEST_F(RunCards, TwelveCardsOfAVirtualMachineAreUsed) {
  for (uint32_t i = 0; i < 12; ++i) {
    node_.Add({.index = i, .module = 11 - i, .numa_node = -1, .ports = 0});
  }
  CommandRun run = Spawn("node-1\n");
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("rank 11 local 11 visible 0,1,2,3,4,5,6,7,8,9,10,11 module 11"));
}

TEST_F(RunCards, PortsWithoutALinkPreventJobsThatNeedThem) {
  SimNode first(box_.Path("sim/node-1"));
  first.AddCards({0, 1});
  SimNode second(box_.Path("sim/node-2"));
  second.AddCards({1, 0});
  // Leads to another card of the machine; 8, 22 and 23 leave it.
  second.SetPort(0, 3, "down");
  ExpectRefused(Spawn("node-1\nnode-2\n"),
                {"[node-2] card-ports: module 1", SimNode::PciAddress(0), "port 3 down"});
  ExpectRefused(Spawn("node-2\n"), {"[node-2] card-ports: module 1", "port 3 down"});
  second.SetPort(0, 3, "up");
  second.SetPort(1, 22, "down");
  ExpectRefused(Spawn("node-1\nnode-2\n"), {"[node-2] card-ports: module 0", "port 22 down"});
  EXPECT_EQ(Spawn("node-2\n").Wait(), 0) << "one node needs no ports to others";
}

TEST_F(RunCards, FilesThatTheDriverLeavesOddOrRefusesToReadDoNoHarm) {
  node_.AddCards({1, 0});
  node_.Write(SimNode::DeviceFolder(0) + "/fw_os_ver", "hl-gaudi2-1.22.0-fw-60.0.0");
  node_.Unreadable(SimNode::DeviceFolder(0) + "/max_power");
  node_.Unreadable(SimNode::DeviceFolder(1) + "/clk_cur_freq_mhz");
  CommandRun run = Spawn("node-1\n");
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("rank 1 local 1 visible 0,1 module 1"));
}

TEST_F(RunCards, ACardInResetIsWaitedForAndThenRefused) {
  node_.AddCards({0, 1});
  node_.SetStatus(1, "In reset");
  ExpectRefused(
      Spawn("node-1 slots=2\n", {"--device-wait", "200ms"}),
      {"[node-1] card-status: module 1 (" + SimNode::PciAddress(1) + ")", "\"In reset\""});
}

TEST_F(RunCards, ACardThatWentIntoResetUnderItsRankIsTold) {
  node_.AddCards({1, 0});
  box_.Write("r.py", R"(import os, signal, sys
if os.environ['RANK'] == '0':
    signal.pause()
with open('sim/sys/class/accel/accel0/device/status', 'w') as file:
    file.write('In reset\n')
sys.exit(3)
)");
  CommandRun run = Spawn("node-1 slots=2\n");
  EXPECT_EQ(run.Wait(), 3) << run.err();
  EXPECT_THAT(run.err(),
              HasSubstr("hint: [node-1] card of rank 1: module 1 (" + SimNode::PciAddress(0) +
                        ") is not ready, its status is \"In reset\""));
  EXPECT_THAT(run.err(), Not(HasSubstr("card of rank 0")));
}

TEST_F(RunCards, ACardThatAProcessHoldsIsRefusedWithItsName) {
  node_.AddCards({0, 1});
  const int card = ::open(node_.NodePath(1).c_str(), O_RDONLY);
  // As its standard input.
  CommandRun holder = box_.StartProgram("/bin/sleep", {"1000"}, Sandbox::Stdout::kFile, card);
  ::close(card);
  ExpectRefused(Spawn("node-1 slots=2\n", {"--device-wait", "0"}),
                {"[node-1] card-busy: module 1 (" + SimNode::PciAddress(1) + ") is held by pid " +
                 std::to_string(holder.pid())});
}

TEST_F(RunCards, OfTwoCommandsTheSecondIsToldWhoHasTheCards) {
  node_.AddCards({0, 1});
  box_.Write("wait.py",
             "import os, time\nopen('up', 'w').close()\nwhile not os.path.exists('go'):\n    "
             "time.sleep(0.01)\n");
  box_.Write("hosts", "node-1 slots=2\n");
  CommandRun first = box_.Start({"spawn", "--sysroot", "sim", "--hostfile", "hosts", "wait.py"});
  ASSERT_TRUE(box_.WaitFor("up"));
  ExpectRefused(Spawn("node-1 slots=1\n", {"--device-wait", "0"}),
                {"[node-1] slot-lease: the card of module 0 of node-1 is in use by", "(wait)"});
  box_.Write("go", "");
  EXPECT_EQ(first.Wait(), 0) << first.err();
}

// The tool of the vendor where sysfs shows nothing: index and module id are not the same thing.
TEST_F(RunCards, ModulesComeFromTheToolWhereSysfsShowsNone) {
  node_.WriteProgram("/usr/bin/hl-smi",
                     "#!/bin/sh\nprintf 'index, module_id\\n0, 6\\n1, 4\\n2, 7\\n3, 5\\n'\n");
  CommandRun run = Spawn("node-1 slots=4\n");
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("rank 2 local 2 visible 4,5,6,7 module 6"));
  for (const char* rank : {"0", "1", "2", "3"}) {
    std::filesystem::remove(box_.Path("started.") + rank);
  }
  ExpectRefused(Spawn("node-1 slots=8\n"), {"node-1 asks for 8 cards", "has 4 cards"});
}

TEST_F(RunCards, TheToolIsFoundInPath) {
  SimNode path(box_.Path("bin"));
  path.WriteProgram("/hl-smi", "#!/bin/sh\nprintf 'index, module_id\\n0, 2\\n1, 3\\n'\n");
  box_.Set("PATH", box_.Path("bin") + ":/usr/bin:/bin");
  box_.Write("hosts", "node-1 slots=2\n");
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "r.py"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("rank 1 local 1 visible 2,3 module 3"));
}

}  // namespace
}  // namespace muster
