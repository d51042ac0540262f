// What `coordinator spawn` and `submit` refuse, and what they check before anything starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Sandbox;
using testing::Seconds;
using testing::WaitUntil;

class RunInput : public ::testing::Test {
 protected:
  RunInput() {
    box_.Hosts(2, 1);
    box_.Write("r.py", "import os\nopen('started.'+os.environ['RANK'],'w')\n");
  }
  // Nothing was started.
  void ExpectNothing() {
    EXPECT_FALSE(box_.Has("started.0") || box_.Has("started.1"));
    EXPECT_THAT(box_.Processes(), IsEmpty());
  }

  Sandbox box_;
};

TEST_F(RunInput, HostfileWithoutHostsIsAnErrorAndNoLocalRun) {
  std::filesystem::create_directory(box_.Path("folder"));
  box_.Write("void", "");
  box_.Write("notes", "# all of rack 4\n\n# none yet\n");
  box_.Write("job.yaml", "hostfile: notes\nscript: r.py\n");
  for (const char* hostfile : {"nope/hostfile", "folder", "void", "notes"}) {
    CommandRun run = box_.Run({"spawn", "--hostfile", hostfile, "r.py"});
    EXPECT_EQ(run.Wait(), 2);
    EXPECT_THAT(run.err(), HasSubstr(hostfile));
    ExpectNothing();
  }
  CommandRun run = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(run.Wait(), 2);
  EXPECT_THAT(run.err(), HasSubstr("notes"));
  ExpectNothing();
}

TEST_F(RunInput, OneMachineUnderTwoNamesIsRefused) {
  box_.Write("hosts", "node-1 slots=1\n127.0.0.1 slots=1\n");
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "r.py"});
  EXPECT_EQ(run.Wait(), 120) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("node-1"), HasSubstr("127.0.0.1")));
  ExpectNothing();
}

TEST_F(RunInput, AThousandHostsNeedFewOpenFiles) {
  std::string text;
  for (int i = 1; i <= 1000; ++i) text += "rack-" + std::to_string(i) + ".lab.example slots=8\n";
  box_.Write("hosts", text);
  box_.LimitSoftly(RLIMIT_NOFILE, 64);
  CommandRun run = box_.Run({"spawn", "--dry_run", "--hostfile", "hosts", "r.py"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr("\"world_size\": 8000"), HasSubstr("\"rank\": 7999"),
                               HasSubstr("rack-1000.lab.example")));
}

TEST_F(RunInput, HundredsOfDeadHostsNeedFewOpenFiles) {
  std::string text = "node-1 slots=1\n";
  for (int i = 1; i <= 250; ++i) text += "198.51.100." + std::to_string(i) + " slots=8\n";
  box_.Write("hosts", text);
  box_.LimitSoftly(RLIMIT_NOFILE, 128);
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "--timeout", "2", "r.py"});
  EXPECT_EQ(run.Wait(), 120) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("198.51.100.1"), HasSubstr("250 of 251 hosts"),
                               Not(HasSubstr("open files"))));
  ExpectNothing();
}

TEST_F(RunInput, DryRunStartsNothing) {
  CommandRun run = box_.Run({"spawn", "--dry_run", "--hostfile", "hosts", "r.py", "--x", "a b"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), AllOf(HasSubstr("\"world_size\": 2"), HasSubstr("\"a b\"")));
  ExpectNothing();
}

TEST_F(RunInput, MissingNodesAreAllNamed) {
  box_.Write("hosts", "node-1 slots=1\n192.0.2.77 slots=1\nnode-2 slots=1\n192.0.2.78 slots=1\n");
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "--timeout", "2", "r.py"});
  EXPECT_EQ(run.Wait(), 120) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("192.0.2.77"), HasSubstr("192.0.2.78")));
  EXPECT_THAT(run.err(), HasSubstr("waiting for 2 of 4 hosts: 192.0.2.77"));
  ExpectNothing();
}

TEST_F(RunInput, VariableThatIsTooLongIsNamed) {
  box_.Write(".deepspeed_env", "BIGVAR=" + std::string(200'000, 'x') + "\n");
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "r.py"});
  EXPECT_NE(run.Wait(), 0);
  EXPECT_THAT(run.err(), AllOf(HasSubstr("BIGVAR"), HasSubstr("too long"), HasSubstr("200")));
  ExpectNothing();
}

TEST_F(RunInput, VariablesThatDoubleEachOtherAreRefused) {
  // Only the node knows how long this is.
  std::string text = "A=$PATH\n";
  for (int i = 0; i < 64; ++i) text += "A=$A$A\n";
  box_.Write(".deepspeed_env", text);
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "r.py"});
  EXPECT_EQ(run.Wait(), 120) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("variable A"), HasSubstr(".deepspeed_env:"),
                               HasSubstr("too long once it is expanded")));
  ExpectNothing();
}

TEST_F(RunInput, APipeWithoutAWriterCanBeInterrupted) {
  ASSERT_EQ(::mkfifo(box_.Path("pipe").c_str(), 0600), 0);
  CommandRun run = box_.Start({"spawn", "--hostfile", "pipe", "r.py"});
  EXPECT_TRUE(WaitUntil([&] {
    run.Send(SIGINT);
    return run.ended();
  }));
  EXPECT_EQ(run.Wait(), 130);
}

TEST_F(RunInput, AWorkingDirectoryThatIsGoneIsRefused) {
  std::filesystem::create_directory(box_.Path("gone"));
  box_.Write("run.sh", "cd gone && rmdir ../gone && exec \"$@\"\n");
  CommandRun run =
      box_.StartProgram("/bin/sh", {box_.Path("run.sh"), Sandbox::Programs() + "/coordinator",
                                    "spawn", "--hosts", "node-1 slots=1", "--no-python", "pwd"});
  EXPECT_EQ(run.Wait(), 2) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("working directory"));
  EXPECT_THAT(run.out(), IsEmpty());
}

TEST_F(RunInput, MusterSlotsSaysWhatABareHostHas) {
  box_.Write("hosts", "node-1\nnode-2 slots=1\n");
  box_.Set("MUSTER_SLOTS", "2");
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "--no-python", "echo", "here"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  const std::string out = run.out();
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 3) << out;
  box_.Set("MUSTER_SLOTS", "two");
  CommandRun bad = box_.Run({"spawn", "--hostfile", "hosts", "--no-python", "echo", "here"});
  EXPECT_EQ(bad.Wait(), 2);
  EXPECT_THAT(bad.err(), AllOf(HasSubstr("MUSTER_SLOTS"), HasSubstr("two")));
}

TEST_F(RunInput, AddressesOfOtherMachinesAreLeftOutLocally) {
  box_.Write("hosts", "node-1 slots=1 addr=192.0.2.77\nnode-2 slots=1\n");
  CommandRun run =
      box_.Run({"spawn", "--hostfile", "hosts", "--no-python", "printenv", "MASTER_ADDR"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.err(), AllOf(HasSubstr("hosts:1"), HasSubstr("addr=192.0.2.77")));
  EXPECT_THAT(run.out(), Not(HasSubstr("192.0.2.77")));
}

TEST_F(RunInput, SlotsInUseAreRefused) {
  box_.Write("hosts", "node-1 slots=4\n");
  box_.Write("hold.py",
             "import os,time\nopen('up','w')\nwhile not os.path.exists('go'): time.sleep(0.05)\n");
  CommandRun first =
      box_.Start({"spawn", "--hostfile", "hosts", "--include", "node-1:0,1", "hold.py"});
  ASSERT_TRUE(box_.WaitFor("up")) << first.err();
  CommandRun second = box_.Run({"spawn", "--hostfile", "hosts", "--include", "node-1:1,2", "r.py"});
  EXPECT_EQ(second.Wait(), 120);
  EXPECT_THAT(second.err(), HasSubstr("in use"));
  CommandRun third = box_.Run({"spawn", "--hostfile", "hosts", "--include", "node-1:2,3", "r.py"});
  EXPECT_EQ(third.Wait(), 0) << third.err();
  box_.Write("go", "");
  EXPECT_EQ(first.Wait(), 0) << first.err();
}

TEST_F(RunInput, BusyPortIsNamed) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  socklen_t size = sizeof(address);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const std::string port = std::to_string(ntohs(address.sin_port));
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "--master_port", port, "r.py"});
  EXPECT_EQ(run.Wait(), 120);
  EXPECT_THAT(run.err(), HasSubstr(port));
  ExpectNothing();
}

TEST_F(RunInput, DetachNeedsACoordinator) {
  CommandRun run = box_.Run({"spawn", "--detach", "--hostfile", "hosts", "r.py"});
  EXPECT_EQ(run.Wait(), 2);
  EXPECT_THAT(run.err(), HasSubstr("--detach"));
}

TEST_F(RunInput, MissingCoordinatorNamesLocal) {
  box_.Unset("MUSTER_LOCAL");
  box_.Set("XDG_RUNTIME_DIR", box_.path());
  CommandRun none = box_.Run({"spawn", "--hostfile", "hosts", "r.py"});
  EXPECT_EQ(none.Wait(), 122);
  EXPECT_THAT(none.err(), HasSubstr("--local"));
  CommandRun gone =
      box_.Run({"spawn", "--server", "unix:/nonexistent", "--hostfile", "hosts", "r.py"});
  EXPECT_EQ(gone.Wait(), 122);
  EXPECT_THAT(gone.err(), HasSubstr("/nonexistent"));
}

}  // namespace
}  // namespace muster
