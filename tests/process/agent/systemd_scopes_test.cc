// The question to systemd where there is nobody to answer it. Answers are in the tier `systemd`.

#include "agent/supervise/systemd_scopes.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "common/io/event_loop.h"
#include "common/io/unique_fd.h"
#include "tests/process/agent/temp_directory.h"

namespace muster {
namespace {

class SystemdScopesTest : public ::testing::Test {
 protected:
  SystemdScopesTest() {
    ::setenv("DBUS_SYSTEM_BUS_ADDRESS", ("unix:path=" + path_).c_str(), /*overwrite=*/1);
  }
  ~SystemdScopesTest() override { ::unsetenv("DBUS_SYSTEM_BUS_ADDRESS"); }

  absl::StatusOr<std::string> Ask() {
    EventLoop loop;
    SystemdScopes scopes(loop, kDefaultJobSlice, "/sys/fs/cgroup");
    std::optional<absl::StatusOr<std::string>> answer;
    scopes.Make({"muster-job-test-1.scope", "a test", ::getpid()},
                [&](absl::StatusOr<std::string> given) {
                  answer = std::move(given);
                  loop.Stop();
                });
    loop.Run();
    return *std::move(answer);
  }

  const TempDirectory temp_;
  const std::string path_ = temp_.path() + "/bus";
};

TEST_F(SystemdScopesTest, SayWhyThereIsNoBus) {
  const absl::StatusOr<std::string> answer = Ask();
  EXPECT_FALSE(answer.ok());
  EXPECT_FALSE(answer.status().message().empty());
}

TEST_F(SystemdScopesTest, DoNotWaitForEverForABusThatIsSilent) {
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path_.size(), sizeof address.sun_path);
  path_.copy(address.sun_path, path_.size());
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_FALSE(Ask().ok());
}

}  // namespace
}  // namespace muster
