// Other users of the machine through the coordinator's socket: each under the own name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/integration/sandbox/command_run.h"

namespace muster {
namespace {

using testing::CommandRun;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Sandbox;
using testing::WaitUntil;

class SocketGroup : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "it takes root to be two users";
    // Where nobody can come, too.
    std::string folder = "/tmp/muster-test-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    open_folder_ = folder;
    ::chmod(folder.c_str(), 0755);
    program_ = folder + "/coordinator";
    std::filesystem::copy_file(Sandbox::Programs() + "/coordinator", program_);
    socket_ = folder + "/run/c.sock";
    box_.Hosts(1, 1);
    box_.Unset("MUSTER_LOCAL");
    box_.Set("MUSTER_SERVER", "unix:" + socket_);
  }
  ~SocketGroup() override {
    std::error_code ignored;
    if (!open_folder_.empty()) std::filesystem::remove_all(open_folder_, ignored);
  }

  void Serve(std::vector<std::string> flags) {
    std::vector<std::string> words = {"serve", "--state-dir", "state", "--socket", socket_};
    words.insert(words.end(), flags.begin(), flags.end());
    runs_.push_back(box_.Start(std::move(words)));
    ASSERT_TRUE(WaitUntil([&] {
      return runs_[0].err().find("coordinator serves") != std::string::npos;
    })) << runs_[0].err();
    runs_.push_back(box_.StartProgram(Sandbox::Programs() + "/agent",
                                      {"run", "--coordinator", "unix:" + socket_, "--state-dir",
                                       "node-1", "--node-id", "node-1", "--slots", "1"}));
  }
  CommandRun AsNobody(std::vector<std::string> words) {
    std::vector<std::string> all = {"--reuid",           "nobody",         "--regid",
                                    "nogroup",           "--clear-groups", "/usr/bin/env",
                                    "HOME=/nonexistent", program_};
    all.insert(all.end(), words.begin(), words.end());
    return box_.StartProgram("/usr/bin/setpriv", std::move(all));
  }

  Sandbox box_;
  std::vector<CommandRun> runs_;
  std::string open_folder_;
  std::string program_;
  std::string socket_;
};

TEST_F(SocketGroup, MembersRunJobsAsThemselvesAndSeeTheirOwn) {
  Serve({"--socket-group", "nogroup"});
  box_.Write("job.yaml", "hostfile: hosts\ncwd: /\ncommand: [sh, -c, 'id -un']\n");
  CommandRun of_root = box_.Run({"submit", "job.yaml"});
  EXPECT_EQ(of_root.Wait(), 0) << of_root.err();
  EXPECT_THAT(of_root.out(), HasSubstr("] root\n"));
  const std::string list = box_.Run({"list"}).out();
  const std::string job =
      list.substr(list.find('\n') + 1, list.find(' ', list.find('\n')) - list.find('\n') - 1);

  std::filesystem::copy_file(box_.Path("hosts"), open_folder_ + "/hosts");
  std::filesystem::copy_file(box_.Path("job.yaml"), open_folder_ + "/job.yaml");
  CommandRun own = AsNobody({"submit", open_folder_ + "/job.yaml"});
  EXPECT_EQ(own.Wait(), 0) << own.err();
  EXPECT_THAT(own.out(), HasSubstr("] nobody\n"));
  CommandRun listed = AsNobody({"list"});
  EXPECT_EQ(listed.Wait(), 0) << listed.err();
  EXPECT_THAT(listed.out(), Not(HasSubstr(job)));
  for (const char* what : {"status", "logs", "cancel", "wait", "attach"}) {
    CommandRun other = AsNobody({what, job});
    EXPECT_NE(other.Wait(), 0) << what;
    EXPECT_THAT(other.err(), HasSubstr("there is no job " + job)) << what;
  }
  CommandRun token = AsNobody({"members"});
  EXPECT_NE(token.Wait(), 0);
  box_.Write("root.yaml", "hostfile: hosts\ncwd: /\nuser: root\ncommand: [id]\n");
  std::filesystem::copy_file(box_.Path("root.yaml"), open_folder_ + "/root.yaml");
  CommandRun root = AsNobody({"submit", open_folder_ + "/root.yaml"});
  EXPECT_EQ(root.Wait(), 2);
  EXPECT_THAT(root.err(), HasSubstr("only an admin may name another user"));
  // Root sees both.
  EXPECT_THAT(box_.Run({"list"}).out(), HasSubstr(job));
}

TEST_F(SocketGroup, WithoutAGroupOthersCannotConnect) {
  Serve({});
  CommandRun list = AsNobody({"list"});
  EXPECT_EQ(list.Wait(), 122);
}

TEST_F(SocketGroup, AGroupThatIsNotThereIsRefused) {
  CommandRun run = box_.Run(
      {"serve", "--state-dir", "state", "--socket", socket_, "--socket-group", "no-such-group"});
  EXPECT_EQ(run.Wait(), 2);
  EXPECT_THAT(run.err(), HasSubstr("there is no group 'no-such-group'"));
}

}  // namespace
}  // namespace muster
