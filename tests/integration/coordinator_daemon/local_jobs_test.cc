#include "coordinator/daemon/local_jobs.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "coordinator/store/directory_lock.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class LocalJobsTest : public testing::Test {
 protected:
  LocalJobsTest() {
    std::string path = testing::TempDir() + "/muster-local-XXXXXX";
    directory_ = mkdtemp(path.data());
  }
  ~LocalJobsTest() override { fs::remove_all(directory_); }

  std::string MakeRun(const std::string& job_id) {
    const absl::StatusOr<std::string> folder = MakeRunFolder(directory_);
    EXPECT_TRUE(folder.ok()) << folder.status();
    EXPECT_TRUE(LinkLocalJob(directory_, job_id, *folder).ok());
    return *folder;
  }
  // A run with output of ranks that ended years ago, `number` hours after others.
  std::string MakeOldRun(int number) {
    const std::string folder = fmt::format("{}/run-2020{:04}", directory_, number);
    fs::create_directories(folder + "/logs");
    std::ofstream(folder + "/muster-local-job");
    std::ofstream(folder + "/logs/output") << "bytes";
    SetLastUse(folder, number);
    return folder;
  }

  static void SetLastUse(const std::string& folder, int hours) {
    fs::last_write_time(folder + "/muster-local-job",
                        fs::file_time_type::clock::now() + std::chrono::hours(hours - 50'000));
  }

  std::string directory_;
};

TEST_F(LocalJobsTest, FindsAJobByItsId) {
  const std::string folder = MakeRun("abc-1");
  const std::optional<LocalJob> job = FindLocalJob(directory_, "abc-1");
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->folder, folder);
  EXPECT_EQ(job->address, "") << "nobody holds the lock";
  EXPECT_FALSE(FindLocalJob(directory_, "abc-2").has_value());
}

TEST_F(LocalJobsTest, KnowsTheAddressWhileTheCoordinatorLives) {
  const std::string folder = MakeRun("abc");
  std::ofstream(folder + "/address") << "unix:/run/sock";
  {
    const absl::StatusOr<DirectoryLock> lock = DirectoryLock::Acquire(folder);
    ASSERT_TRUE(lock.ok());
    EXPECT_EQ(FindLocalJob(directory_, "abc")->address, "unix:/run/sock");
  }
  EXPECT_EQ(FindLocalJob(directory_, "abc")->address, "");
}

TEST_F(LocalJobsTest, IsNotLedOutOfItsDirectory) {
  fs::create_directories(directory_ + "/elsewhere/run-x");
  std::ofstream(directory_ + "/elsewhere/run-x/muster-local-job");
  fs::create_symlink("elsewhere/run-x", directory_ + "/abc");
  fs::create_directories(directory_ + "/plain");
  for (const std::string id : {"abc", "plain", "..", "../x", "", "a/b", "elsewhere/run-x"}) {
    EXPECT_FALSE(FindLocalJob(directory_, id).has_value()) << id;
  }
}

TEST_F(LocalJobsTest, ListsTheNewestFirst) {
  MakeRun("first");
  MakeRun("second");
  MakeRun("third");
  std::ofstream(directory_ + "/stray");
  std::vector<std::string> ids;
  for (const LocalJob& job : ListLocalJobs(directory_)) ids.push_back(job.job_id);
  // Runs of the same millisecond have no order.
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_THAT(ids, testing::UnorderedElementsAre("first", "second", "third"));
  EXPECT_TRUE(ListLocalJobs("/nowhere").empty());
}

TEST_F(LocalJobsTest, DeletesTheOldestRunsOnly) {
  std::vector<std::string> old;
  for (int i = 1; i <= 5; ++i) old.push_back(MakeOldRun(i));
  const std::string fresh = MakeRun("fresh");
  ASSERT_TRUE(LinkLocalJob(directory_, "gone", old[0]).ok());
  EXPECT_EQ(PruneLocalRuns(directory_, 3), 2u);
  EXPECT_FALSE(fs::exists(old[0]));
  EXPECT_FALSE(fs::exists(old[1]));
  EXPECT_TRUE(fs::exists(old[2]));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_FALSE(fs::is_symlink(directory_ + "/gone")) << "its run is gone";
  EXPECT_TRUE(fs::is_symlink(directory_ + "/fresh"));
  EXPECT_EQ(PruneLocalRuns(directory_, 3), 0u);
}

TEST_F(LocalJobsTest, KeepsOutputThoughManyStartsFailedSince) {
  const std::string precious = MakeOldRun(1);
  const std::string later = MakeOldRun(2);
  // It was used after the one that began later.
  SetLastUse(precious, 3);
  for (int i = 0; i < 5; ++i) MakeRun("failed-" + std::to_string(i));
  EXPECT_EQ(PruneLocalRuns(directory_, 1), 5u);
  EXPECT_TRUE(fs::exists(precious));
  EXPECT_FALSE(fs::exists(later));
}

TEST_F(LocalJobsTest, LeavesAloneWhatIsNotItsOwn) {
  fs::create_directories(directory_ + "/run-20200101-mine");  // without the marker
  fs::create_directories(directory_ + "/precious");
  std::ofstream(directory_ + "/precious/muster-local-job");  // not a run by name
  const std::string outside = directory_ + "-outside";
  fs::create_directories(outside);
  std::ofstream(outside + "/muster-local-job");
  fs::create_symlink(outside, directory_ + "/run-20200101-link");
  MakeRun("fresh");
  EXPECT_EQ(PruneLocalRuns(directory_, 0), 1u);
  EXPECT_TRUE(fs::exists(directory_ + "/run-20200101-mine"));
  EXPECT_TRUE(fs::exists(directory_ + "/precious/muster-local-job"));
  EXPECT_TRUE(fs::exists(outside + "/muster-local-job"));
  EXPECT_TRUE(fs::is_symlink(directory_ + "/run-20200101-link"));
  fs::remove_all(outside);
}

TEST_F(LocalJobsTest, LeavesRunsInUse) {
  const std::string owned = MakeOldRun(1);
  const std::string watched = MakeOldRun(2);
  const absl::StatusOr<DirectoryLock> owner = DirectoryLock::Acquire(owned);
  const absl::StatusOr<DirectoryLock> reader = DirectoryLock::AcquireShared(watched);
  ASSERT_TRUE(owner.ok() && reader.ok());
  EXPECT_EQ(PruneLocalRuns(directory_, 0), 0u);
  EXPECT_TRUE(fs::exists(owned + "/logs/output"));
  EXPECT_TRUE(fs::exists(watched + "/logs/output"));
}

TEST_F(LocalJobsTest, MakesPrivateDirectories) {
  const std::string nested = directory_ + "/a/b/local";
  ASSERT_TRUE(MakeLocalJobsDirectory(nested).ok());
  ASSERT_TRUE(MakeLocalJobsDirectory(nested).ok());
  struct stat info;
  ASSERT_EQ(::stat(nested.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  std::ofstream(directory_ + "/file");
  EXPECT_FALSE(MakeLocalJobsDirectory(directory_ + "/file").ok());
  const absl::Status below = MakeLocalJobsDirectory(directory_ + "/file/below");
  EXPECT_THAT(below.ToString(), HasSubstr("/file/below: Not a directory"));
  EXPECT_THAT(below.ToString(), HasSubstr("MUSTER_LOCAL_DIR")) << "the way out";
}

// Sets a variable for the life of the object.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before;
    if (value != nullptr) {
      ::setenv(name, value, 1);
    } else {
      ::unsetenv(name);
    }
  }
  ~ScopedVariable() {
    if (before_.has_value()) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

TEST(LocalJobsDirectory, PrefersWhatTheUserSays) {
  const ScopedVariable home("HOME", "/home/alice");
  const ScopedVariable state("XDG_STATE_HOME", "/state");
  const ScopedVariable local("MUSTER_LOCAL_DIR", "/mine/");
  EXPECT_EQ(LocalJobsDirectory(), "/mine");
  ::unsetenv("MUSTER_LOCAL_DIR");
  EXPECT_EQ(LocalJobsDirectory(), "/state/muster/local");
  ::unsetenv("XDG_STATE_HOME");
  EXPECT_EQ(LocalJobsDirectory(), "/home/alice/.local/state/muster/local");
  ::unsetenv("HOME");
  EXPECT_EQ(LocalJobsDirectory(), fmt::format("/var/tmp/muster-{}/local", ::geteuid()));
}

}  // namespace
}  // namespace muster
