// What `coordinator spawn` and `submit` refuse, and what they check before anything starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include "tests/integration/cli/command_run.h"

namespace muster {
namespace {

using ::testing::AllOf;
using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Sandbox;
using testing::Seconds;

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

TEST_F(RunInput, MissingHostfileIsAnError) {
  CommandRun run = box_.Run({"spawn", "--hostfile", "nope/hostfile", "r.py"});
  EXPECT_EQ(run.Wait(), 2);
  EXPECT_THAT(run.err(), HasSubstr("nope/hostfile"));
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
  EXPECT_LT(run.seconds(), 10);
  EXPECT_THAT(run.err(), AllOf(HasSubstr("192.0.2.77"), HasSubstr("192.0.2.78")));
  EXPECT_THAT(run.err(), HasSubstr("waiting for 2 of 4 hosts: 192.0.2.77"));
  ExpectNothing();
}

TEST_F(RunInput, MissingFolderNamesTheNodes) {
  box_.Write("job.yaml", "hostfile: hosts\nscript: r.py\ncwd: /no/such/dir\n");
  CommandRun run = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(run.Wait(), 120) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("[node-1,node-2]"));
  EXPECT_THAT(run.err(), HasSubstr("/no/such/dir"));
  ExpectNothing();
}

TEST_F(RunInput, MissingScriptIsNamed) {
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "nosuch.py"});
  EXPECT_NE(run.Wait(), 0);
  EXPECT_THAT(run.err(), HasSubstr("nosuch.py"));
}

TEST_F(RunInput, VariableThatIsTooLongIsNamed) {
  box_.Write(".deepspeed_env", "BIGVAR=" + std::string(200'000, 'x') + "\n");
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "r.py"});
  EXPECT_NE(run.Wait(), 0);
  EXPECT_THAT(run.err(), HasSubstr("BIGVAR"));
  ExpectNothing();
}

TEST_F(RunInput, SecretsReachTheRankAndNothingElse) {
  box_.Write(".deepspeed_env", "WANDB_API_KEY=demo0123456789abcdef\n");
  box_.Write("r.py", "import os\nprint(len(os.environ['WANDB_API_KEY']))\n");
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "--log_dir", "logs", "r.py"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("[0@node-1] 20\n"));
  CommandRun plan = box_.Run({"spawn", "--dry-run", "--hostfile", "hosts", "r.py"});
  for (const std::string& text : {run.err(), plan.out(), plan.err()}) {
    EXPECT_THAT(text, Not(HasSubstr("demo0123456789abcdef")));
  }
}

TEST_F(RunInput, ProxiesDoNotComeBetween) {
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy", "HTTPS_PROXY"}) {
    box_.Set(name, "http://192.0.2.9:3128");
  }
  CommandRun run = box_.Run({"spawn", "--hostfile", "hosts", "r.py"});
  EXPECT_EQ(run.Wait(Seconds(20)), 0) << run.err();
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
