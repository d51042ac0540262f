#include "common/io/state_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/annotate.h"
#include "tests/process/agent/temp_directory.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// A process that holds the lock until it is killed.
class Holder {
 public:
  explicit Holder(const std::string& directory) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const auto lock = LockStateDirectory(directory, "agent", milliseconds(0));
      (void)!::write(ready[1], "x", lock.ok() ? 1 : 0);
      ::close(ready[1]);
      while (true) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
  }
  ~Holder() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST(LockStateDirectory, RefusesASecondAgentAndNamesTheFirst) {
  const TempDirectory temp;
  const Holder first(temp.path());
  const auto second = LockStateDirectory(temp.path(), "agent", milliseconds(100));
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(MessageOf(second.status())),
              HasSubstr("process " + std::to_string(first.pid())));
}

TEST(LockStateDirectory, SucceedsWhenTheFirstIsKilledMeanwhile) {
  const TempDirectory temp;
  const Holder first(temp.path());
  // Killed by a third process while this one waits.
  const pid_t killer = ::fork();
  if (killer == 0) {
    ::usleep(100'000);  // paces: so that the other one waits already, most of the time
    ::kill(first.pid(), SIGKILL);
    ::_exit(0);
  }
  EXPECT_TRUE(LockStateDirectory(temp.path(), "agent", milliseconds(20'000)).ok());
  ::waitpid(killer, nullptr, 0);
}

TEST(LockStateDirectory, IsFreeAgainWhenGivenBack) {
  const TempDirectory temp;
  EXPECT_TRUE(LockStateDirectory(temp.path(), "agent", milliseconds(0)).ok());
  EXPECT_TRUE(LockStateDirectory(temp.path(), "agent", milliseconds(0)).ok());
}

TEST(MakeStateDirectory, MakesParentsForTheOwnerOnly) {
  const TempDirectory temp;
  const std::string path = temp.path() + "/a/b/c";
  ASSERT_TRUE(MakeStateDirectory(path).ok());
  ASSERT_TRUE(MakeStateDirectory(path).ok());
  struct stat info = {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

}  // namespace
}  // namespace muster
