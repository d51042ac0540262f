#include "coordinator/cli/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "common/base/annotate.h"
#include "tests/process/cli_job/user_folder.h"

namespace muster {
namespace {

std::string ErrorOf(const std::string& path, size_t max_bytes = kMaxInputBytes) {
  const absl::StatusOr<std::string> content = ReadInputFile(path, max_bytes);
  return content.ok() ? "" : std::string(MessageOf(content.status()));
}

TEST(ReadInputFile, ReadsEveryByte) {
  UserFolder user;
  const std::string content = std::string(300'000, 'x') + std::string("\0\xff\r\n", 4);
  user.Write("f", content);
  user.Write("empty", "");
  EXPECT_EQ(*ReadInputFile(user.client.cwd + "/f"), content);
  EXPECT_EQ(*ReadInputFile(user.client.cwd + "/empty"), "");
}

TEST(ReadInputFile, ReadsAPipe) {
  UserFolder user;
  const std::string path = user.client.cwd + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << "node-1 slots=8\n"; });
  EXPECT_EQ(*ReadInputFile(path), "node-1 slots=8\n");
  writer.join();
}

TEST(ReadInputFile, SaysWhyNot) {
  UserFolder user;
  user.Write("f", "12345");
  EXPECT_EQ(ErrorOf(user.client.cwd + "/gone"), "no such file");
  EXPECT_EQ(ErrorOf(user.client.cwd + "/f/below"), "no such file");
  EXPECT_EQ(ErrorOf(user.client.cwd), "is a folder");
  EXPECT_EQ(ErrorOf(user.client.cwd + "/f", 4), "is larger than 4 bytes");
  EXPECT_EQ(ErrorOf(user.client.cwd + "/f", 5), "");
  EXPECT_EQ(ErrorOf("/dev/zero", 1 << 20), "is larger than 1048576 bytes");
  EXPECT_EQ(ErrorOf(user.client.cwd + std::string("/f\0x", 4)), "no such file");
}

TEST(FileIdentity, IsThatOfTheFileNotOfItsName) {
  UserFolder user;
  user.Write("f", "");
  user.Write("g", "");
  std::filesystem::create_symlink("f", user.client.cwd + "/link");
  EXPECT_EQ(FileIdentity(user.client.cwd + "/f"), FileIdentity(user.client.cwd + "/link"));
  EXPECT_NE(FileIdentity(user.client.cwd + "/f"), FileIdentity(user.client.cwd + "/g"));
  EXPECT_EQ(FileIdentity(user.client.cwd + "/gone"), "");
}

TEST(ReadClientEnv, KnowsThisProcess) {
  ASSERT_EQ(setenv("MUSTER_TEST_VALUE", "a=b", 1), 0);
  const ClientEnv client = ReadClientEnv().value();
  unsetenv("MUSTER_TEST_VALUE");
  EXPECT_EQ(client.Get("MUSTER_TEST_VALUE"), "a=b");
  EXPECT_EQ(FileIdentity(client.cwd), FileIdentity("."));
  EXPECT_TRUE(client.cwd.starts_with('/'));
  EXPECT_FALSE(client.user.empty());
}

}  // namespace
}  // namespace muster
