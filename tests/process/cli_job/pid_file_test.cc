#include "coordinator/cli/pid_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/process/cli_job/user_folder.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

class PidFileTest : public ::testing::Test {
 protected:
  std::string Read() const {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  UserFolder user_;
  const std::string name_ = fmt::format("{}.deepspeed", getpid());
  const std::string path_ = user_.client.cwd + "/" + name_;
};

TEST_F(PidFileTest, HoldsTheIdOfThisProcessWhileItRuns) {
  {
    const auto file = PidFile::Create(user_.client.cwd);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->path(), path_);
    EXPECT_EQ(Read(), std::to_string(getpid()));
  }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(PidFileTest, ReplacesOneThatAnEndedProcessHasLeft) {
  user_.Write(name_, "of yesterday");
  const auto file = PidFile::Create(user_.client.cwd);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(Read(), std::to_string(getpid()));
}

TEST_F(PidFileTest, NeverFollowsALinkOrReplacesAFolder) {
  user_.Write("precious", "x");
  fs::create_symlink("precious", path_);
  EXPECT_EQ(PidFile::Create(user_.client.cwd).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Read(), "x");
  fs::remove(path_);
  fs::create_directory(path_);
  EXPECT_EQ(PidFile::Create(user_.client.cwd).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(PidFile::Create(user_.client.cwd + "/none").ok());
}

TEST_F(PidFileTest, LeavesAFileThatHasTakenItsPlace) {
  auto file = PidFile::Create(user_.client.cwd);
  ASSERT_TRUE(file.ok()) << file.status();
  fs::rename(path_, path_ + ".mine");
  user_.Write(name_, "of another");
  file->reset();
  EXPECT_EQ(Read(), "of another");
}

}  // namespace
}  // namespace muster
