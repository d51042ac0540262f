// Local runs that cannot have the threads and open files that they need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using testing::CommandRun;
using ::testing::HasSubstr;
using testing::Sandbox;
using testing::Seconds;
using testing::WaitUntil;

class RunLimits : public ::testing::Test {
 protected:
  RunLimits() {
    box_.Hosts(2, 1);
    box_.Write("r.py", "pass\n");
  }
  // Through a shell that limits itself, and programs before it.
  CommandRun Limited(const std::string& limit, std::vector<std::string> before = {}) {
    before.insert(before.end(),
                  {"/bin/bash", "-c", "ulimit " + limit + "; exec \"$0\" \"$@\"",
                   Sandbox::Programs() + "/coordinator", "spawn", "--hostfile", "hosts", "r.py"});
    const std::string program = before.front();
    before.erase(before.begin());
    return box_.StartProgram(program, before);
  }

  Sandbox box_;
};

TEST_F(RunLimits, TooFewOpenFilesAreTold) {
  CommandRun run = Limited("-n 16");
  EXPECT_EQ(run.Wait(), 120) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("the limit of open files is 16, but at least 64 are needed"));
}

TEST_F(RunLimits, TooFewProcessesAreTold) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs a user without processes";
  for (const char* folder : {".", "home", "leases"}) {
    EXPECT_EQ(::chown(box_.Path(folder).c_str(), 65534, 65534), 0);
  }
  CommandRun run = Limited("-u 6; ulimit -c 0", {"/usr/bin/setpriv", "--reuid", "65534", "--regid",
                                                 "65534", "--clear-groups"});
  if (run.Wait() == 126) GTEST_SKIP() << "that user may not execute the programs here";
  EXPECT_EQ(run.Wait(), 120) << run.err();
  // A thread of the command, or already an agent.
  EXPECT_THAT(run.err(), HasSubstr("Resource temporarily unavailable"));
  EXPECT_TRUE(WaitUntil([&] { return box_.Processes().empty(); }, Seconds(40)));
}

}  // namespace
}  // namespace muster
