#include "common/io/file_holders.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/io/unique_fd.h"
#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using ::testing::IsEmpty;

// A /proc with one process that has `target` open.
void AddProcess(const std::string& proc, int pid, const std::string& target,
                const std::string& environment = "") {
  const std::string folder = proc + "/" + std::to_string(pid);
  std::filesystem::create_directories(folder + "/fd");
  std::filesystem::create_symlink(target, folder + "/fd/7");
  std::ofstream(folder + "/cmdline") << std::string("python3\0train.py\0", 17);
  std::ofstream(folder + "/comm") << "python3\n";
  std::ofstream(folder + "/environ") << environment;
}

class FileHolders : public ::testing::Test {
 protected:
  FileHolders() {
    std::filesystem::create_directories(proc_);
    std::ofstream(card_) << "";
  }

  const TempFolder folder_;
  const std::string proc_ = folder_.File("proc");
  const std::string card_ = folder_.File("accel0");
};

TEST_F(FileHolders, TellsPidUserCommandAndJob) {
  AddProcess(proc_, 4711, card_, std::string("A=1\0MUSTER_JOB_ID=k3x\0B=2\0", 27));
  AddProcess(proc_, 4712, "/dev/null");
  std::filesystem::create_directories(proc_ + "/sys/fd");
  const HolderScan scan = FindFileHolders({folder_.File("accel1"), card_}, proc_);
  ASSERT_EQ(scan.holders.size(), 1u);
  EXPECT_TRUE(scan.complete);
  EXPECT_EQ(scan.holders[0].file, 1u);
  EXPECT_EQ(scan.holders[0].pid, 4711);
  EXPECT_EQ(scan.holders[0].uid, ::getuid());
  EXPECT_EQ(scan.holders[0].command, "python3 train.py");
  EXPECT_EQ(scan.holders[0].job_id, "k3x");
}

// Heartbeats carry both; one that cannot be read would end the session of the node, again and
// again.
TEST_F(FileHolders, WhatAProcessCallsItselfIsToldAsUtf8) {
  AddProcess(proc_, 4711, card_, std::string("MUSTER_JOB_ID=\xff\xfe", 16));
  // Cut in the middle of a character.
  std::ofstream(proc_ + "/4711/cmdline") << std::string(95, 'a') << "\xc3\xa9";
  const HolderScan scan = FindFileHolders({card_}, proc_);
  ASSERT_EQ(scan.holders.size(), 1u);
  EXPECT_EQ(scan.holders[0].command, std::string(95, 'a') + "?");
  EXPECT_EQ(scan.holders[0].job_id, "??");
}

TEST_F(FileHolders, TellsAFileOfTheSameNameFromIt) {
  std::filesystem::create_directories(folder_.File("other"));
  std::ofstream(folder_.File("other/accel0")) << "";
  AddProcess(proc_, 1, folder_.File("other/accel0"));
  EXPECT_THAT(FindFileHolders({card_}, proc_).holders, IsEmpty());
  // Another name of it, as in the /dev of a container.
  std::filesystem::remove(folder_.File("other/accel0"));
  std::filesystem::create_hard_link(card_, folder_.File("other/accel0"));
  EXPECT_EQ(FindFileHolders({card_}, proc_).holders.size(), 1u);
}

TEST_F(FileHolders, IsBounded) {
  for (int pid = 1; pid <= 20; ++pid) AddProcess(proc_, 10'000'000 + pid, card_);
  const HolderScan few = FindFileHolders({card_}, proc_, {.holders = 3});
  EXPECT_EQ(few.holders.size(), 3u);
  EXPECT_FALSE(few.complete);
  EXPECT_FALSE(FindFileHolders({card_}, proc_, {.time = std::chrono::milliseconds(0)}).complete);
}

TEST_F(FileHolders, FindsARealProcess) {
  const UniqueFd open(::open(card_.c_str(), O_RDONLY | O_CLOEXEC));
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte;
    ::close(ready[1]);
    (void)!::read(ready[0], &byte, 1);
    ::_exit(0);
  }
  const HolderScan scan = FindFileHolders({card_}, "/proc", {.time = std::chrono::seconds(20)});
  ASSERT_EQ(scan.holders.size(), 1u) << "itself is none of them";
  EXPECT_EQ(scan.holders[0].pid, child);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(LocalUserName, KnowsNamesAndNumbers) {
  EXPECT_EQ(LocalUserName(0), "root");
  EXPECT_EQ(LocalUserName(4'000'000'000u), "uid 4000000000");
}

}  // namespace
}  // namespace muster
