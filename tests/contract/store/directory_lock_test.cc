#include "coordinator/store/directory_lock.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "common/base/annotate.h"
#include "tests/contract/store/store_fixture.h"

namespace muster {
namespace {

TEST(DirectoryLock, IsHeldByOneOnly) {
  const ScratchFolder folder;
  EXPECT_TRUE(DirectoryLock::IsFree(folder.path()));
  {
    const absl::StatusOr<DirectoryLock> first = DirectoryLock::Acquire(folder.path());
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_FALSE(DirectoryLock::IsFree(folder.path()));
    const absl::StatusOr<DirectoryLock> second = DirectoryLock::Acquire(folder.path());
    EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(MessageOf(second.status())),
                testing::HasSubstr(fmt::format("process {}", ::getpid())));
  }
  EXPECT_TRUE(DirectoryLock::IsFree(folder.path()));
  EXPECT_TRUE(DirectoryLock::Acquire(folder.path()).ok());
}

TEST(DirectoryLock, SaysThatTheDirectoryIsMissing) {
  EXPECT_EQ(DirectoryLock::Acquire("/nowhere/at/all").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace muster
