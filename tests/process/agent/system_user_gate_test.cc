// The gate with the user database of this machine, on a real loop.
#include "agent/node/system_user_gate.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>

#include "common/base/annotate.h"
#include "common/io/account.h"
#include "common/io/event_loop.h"
#include "common/io/unique_fd.h"
#include "tests/testing/temp_folder.h"

namespace {

// A user database that does not answer: lookups of this name wait until they are let go.
constexpr char kSlowUser[] = "muster-slow-user";
std::mutex g_mutex;
std::condition_variable g_wake;
bool g_let_go = false;
int g_waiting = 0;

}  // namespace

// In front of the C library's.
extern "C" int getpwnam_r(const char* name, passwd* entry, char* buffer, size_t size,
                          passwd** found) {
  if (std::string(name) == kSlowUser) {
    std::unique_lock lock(g_mutex);
    ++g_waiting;
    g_wake.notify_all();
    g_wake.wait(lock, [] { return g_let_go; });
    --g_waiting;
    g_wake.notify_all();
  }
  using Function = int (*)(const char*, passwd*, char*, size_t, passwd**);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getpwnam_r"));
  return real(name, entry, buffer, size, found);
}

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SystemUserGateTest : public ::testing::Test {
 protected:
  UserGateOptions Options(bool is_root = true) {
    return {.own_name = is_root ? "root" : "trainer",
            .is_root = is_root,
            .allow_file = folder_.path() + "/allow_users"};
  }
  void Allow(const std::string& text) {
    std::ofstream(folder_.path() + "/allow_users") << text;
    ::chmod((folder_.path() + "/allow_users").c_str(), 0644);
  }
  absl::StatusOr<RunAs> Admit(const UserGateOptions& options, const std::string& user) {
    SystemUserGate gate(loop_, options);
    absl::StatusOr<RunAs> answer = absl::UnknownError("no answer");
    gate.Admit(user, [&](absl::StatusOr<RunAs> result) {
      answer = std::move(result);
      loop_.Stop();
    });
    loop_.Run();
    return answer;
  }
  // So many lookups hang.
  static void AwaitHanging(int lookups) {
    std::unique_lock lock(g_mutex);
    g_wake.wait(lock, [&] { return g_waiting == lookups; });
  }
  // Lets lookups that hang go on, until none does.
  static void LetGo() {
    std::unique_lock lock(g_mutex);
    g_let_go = true;
    g_wake.notify_all();
    g_wake.wait(lock, [] { return g_waiting == 0; });
    g_let_go = false;
  }
  static UniqueFd ListenAt(const std::string& path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  static std::string TextOf(const absl::StatusOr<RunAs>& answer) {
    return std::string(MessageOf(answer.status()));
  }

  TempFolder folder_;
  EventLoop loop_;
};

TEST_F(SystemUserGateTest, FindsNumbersGroupsAndHome) {
  Allow("nobody\n");
  const absl::StatusOr<RunAs> found = Admit(Options(), "nobody");
  ASSERT_TRUE(found.ok()) << found.status();
  const passwd* const entry = ::getpwnam("nobody");
  ASSERT_NE(entry, nullptr);
  EXPECT_FALSE(found->self);
  EXPECT_EQ(found->name, "nobody");
  EXPECT_EQ(found->uid, entry->pw_uid);
  EXPECT_EQ(found->gid, entry->pw_gid);
  EXPECT_EQ(found->home, entry->pw_dir);
  EXPECT_EQ(found->shell, entry->pw_shell);
  EXPECT_THAT(found->groups, ::testing::Contains(entry->pw_gid));
  // By number, as others write it.
  EXPECT_EQ(Admit(Options(), std::to_string(entry->pw_uid))->name, "nobody");
}

TEST_F(SystemUserGateTest, RefusesWhoeverIsNotOnTheList) {
  for (const char* list : {"", "# nobody\n", "alice\n", "*\n", "@nogroup\n"}) {
    Allow(list);
    const absl::StatusOr<RunAs> found = Admit(Options(), "nobody");
    EXPECT_TRUE(absl::IsPermissionDenied(found.status())) << list;
    EXPECT_THAT(TextOf(found), AllOf(HasSubstr("\"nobody\""), HasSubstr("/allow_users")));
  }
}

TEST_F(SystemUserGateTest, WithoutAListNobodyIsAllowed) {
  EXPECT_TRUE(absl::IsPermissionDenied(Admit(Options(), "nobody").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(Admit(Options(), "root").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(Admit(Options(), "").status()));
}

TEST_F(SystemUserGateTest, RootIsAllowedByNameOnly) {
  Allow("*\n@root\n");
  EXPECT_TRUE(absl::IsPermissionDenied(Admit(Options(), "root").status()));
  UserGateOptions options = Options();
  options.allowed = {"root"};
  EXPECT_TRUE(Admit(options, "root")->self);
  Allow("root\n");
  EXPECT_TRUE(Admit(Options(), "root")->self);
  // Also for those who call it otherwise.
  Allow("nobody\n");
  EXPECT_TRUE(absl::IsPermissionDenied(Admit(Options(), "0").status()));
}

TEST_F(SystemUserGateTest, AListThatOthersCanWriteDoesNotCount) {
  Allow("nobody\n");
  ::chmod((folder_.path() + "/allow_users").c_str(), 0666);
  const absl::StatusOr<RunAs> found = Admit(Options(), "nobody");
  EXPECT_TRUE(absl::IsPermissionDenied(found.status()));
  EXPECT_THAT(TextOf(found), HasSubstr("does not count"));
}

TEST_F(SystemUserGateTest, AListWithAMistakeIsToldWithItsPlace) {
  Allow("nobody\nalice and bob\n");
  EXPECT_THAT(TextOf(Admit(Options(), "nobody")), HasSubstr("/allow_users:2: "));
}

TEST_F(SystemUserGateTest, UnknownUsersAreNotFound) {
  Allow("no-such-user-here\n");
  const absl::StatusOr<RunAs> found = Admit(Options(), "no-such-user-here");
  EXPECT_TRUE(absl::IsNotFound(found.status())) << found.status();
  for (const char* name : {"a b", "../x", "-n", "x\ny", "@root"}) {
    EXPECT_TRUE(absl::IsNotFound(Admit(Options(), name).status())) << name;
  }
}

TEST_F(SystemUserGateTest, AnAgentWithoutRightsRunsItsOwnUserOnly) {
  EXPECT_TRUE(Admit(Options(false), "trainer")->self);
  EXPECT_TRUE(Admit(Options(false), "")->self);
  const absl::StatusOr<RunAs> found = Admit(Options(false), "nobody");
  EXPECT_TRUE(absl::IsPermissionDenied(found.status()));
  EXPECT_THAT(TextOf(found), AllOf(HasSubstr("\"trainer\""), HasSubstr("\"nobody\"")));
}

TEST_F(SystemUserGateTest, ACoordinatorOfTheSameUserMayNameAnybody) {
  UserGateOptions options = Options();
  options.coordinator_socket = folder_.path() + "/c.sock";
  const UniqueFd listener = ListenAt(options.coordinator_socket);
  EXPECT_TRUE(Admit(options, "root")->self);
  EXPECT_EQ(Admit(options, "nobody")->name, "nobody");
}

TEST_F(SystemUserGateTest, ACoordinatorOfAnotherUserNeedsTheList) {
  if (::geteuid() != 0) GTEST_SKIP() << "it takes root to be two users";
  UserGateOptions options = Options();
  const std::string directory = folder_.path() + "/run";
  const auto refused = [&] {
    for (const char* user : {"", "root", "nobody"}) {
      EXPECT_TRUE(absl::IsPermissionDenied(Admit(options, user).status())) << user;
    }
  };
  std::filesystem::create_directory(directory);
  options.coordinator_socket = directory + "/c.sock";
  const UniqueFd listener = ListenAt(options.coordinator_socket);
  ASSERT_TRUE(Admit(options, "root").ok());
  ASSERT_EQ(::chown(options.coordinator_socket.c_str(), 65534, uid_t{0} - 1), 0);
  refused();
  Allow("nobody\n");
  EXPECT_EQ(Admit(options, "nobody")->name, "nobody");
  Allow("");
  // Where somebody else could put another name of a socket of root's.
  ASSERT_EQ(::chown(options.coordinator_socket.c_str(), 0, uid_t{0} - 1), 0);
  ASSERT_TRUE(Admit(options, "root").ok());
  ASSERT_EQ(::chown(directory.c_str(), 65534, uid_t{0} - 1), 0);
  refused();
  ASSERT_EQ(::chown(directory.c_str(), 0, uid_t{0} - 1), 0);
  ASSERT_EQ(::chmod(directory.c_str(), 0777), 0);
  refused();
  ASSERT_EQ(::chmod(directory.c_str(), 0755), 0);
  std::filesystem::create_symlink(options.coordinator_socket, directory + "/link");
  options.coordinator_socket = directory + "/link";
  refused();
}

TEST_F(SystemUserGateTest, ASocketOfRootsWhereOthersCouldHaveBeenFirstNeedsTheList) {
  if (::geteuid() != 0) GTEST_SKIP() << "it takes root to be two users";
  UserGateOptions options = Options();
  const std::string above = folder_.path() + "/above";
  const std::string directory = above + "/run";
  std::filesystem::create_directories(directory);
  options.coordinator_socket = directory + "/c.sock";
  const UniqueFd listener = ListenAt(options.coordinator_socket);
  ASSERT_TRUE(Admit(options, "root").ok());
  const auto refused = [&] { return absl::IsPermissionDenied(Admit(options, "root").status()); };
  // The agent may still be connected to a socket that was there before.
  ASSERT_EQ(::chmod(directory.c_str(), 01777), 0);
  EXPECT_TRUE(refused());
  ASSERT_EQ(::chmod(directory.c_str(), 0755), 0);
  // Others could put away the directory, and put it back.
  ASSERT_EQ(::chmod(above.c_str(), 0777), 0);
  EXPECT_TRUE(refused());
  ASSERT_EQ(::chmod(above.c_str(), 01777), 0);
  EXPECT_FALSE(refused());
  ASSERT_EQ(::chown(above.c_str(), 65534, uid_t{0} - 1), 0);
  EXPECT_TRUE(refused());
  options.place_trust = PlaceTrust::kDirectory;
  EXPECT_FALSE(refused());
  options.place_trust = PlaceTrust::kWholePath;
  ASSERT_EQ(::chown(above.c_str(), 0, uid_t{0} - 1), 0);
  // By way of a link.
  const std::string link = folder_.path() + "/link";
  std::filesystem::create_directory_symlink("above/../above/run", link);
  options.coordinator_socket = link + "/c.sock";
  EXPECT_FALSE(refused());
  ASSERT_EQ(::lchown(link.c_str(), 65534, uid_t{0} - 1), 0);
  EXPECT_TRUE(refused());
}

TEST_F(SystemUserGateTest, ACoordinatorThatHasJustEndedNeedsTheListWhereItMayHaveBeenAnothers) {
  if (::geteuid() != 0) GTEST_SKIP() << "it takes root to be two users";
  UserGateOptions options = Options();
  const std::string directory = folder_.path() + "/run";
  std::filesystem::create_directory(directory);
  options.coordinator_socket = directory + "/c.sock";
  EXPECT_TRUE(Admit(options, "root").ok());
  ASSERT_EQ(::chmod(directory.c_str(), 01777), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(Admit(options, "root").status()));
  ASSERT_EQ(::chmod(directory.c_str(), 0755), 0);
  ASSERT_EQ(::chown(directory.c_str(), 65534, uid_t{0} - 1), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(Admit(options, "root").status()));
  options.coordinator_socket = folder_.path() + "/nowhere/c.sock";
  EXPECT_TRUE(absl::IsPermissionDenied(Admit(options, "root").status()));
}

TEST_F(SystemUserGateTest, AListThatIsNoFileDoesNotCountAndHoldsUpNobody) {
  const std::string list = folder_.path() + "/allow_users";
  ASSERT_EQ(::mkfifo(list.c_str(), 0644), 0);
  EXPECT_THAT(TextOf(Admit(Options(), "nobody")), HasSubstr("is no file"));
  std::filesystem::remove(list);
  std::filesystem::create_directory(list);
  EXPECT_THAT(TextOf(Admit(Options(), "nobody")), HasSubstr("is no file"));
}

TEST_F(SystemUserGateTest, ADatabaseThatDoesNotAnswerFailsOneJobAndHoldsUpNobody) {
  Allow(std::string(kSlowUser) + "\nnobody\n");
  UserGateOptions options = Options();
  options.lookup_limit = std::chrono::milliseconds(300);
  SystemUserGate gate(loop_, options);
  absl::StatusOr<RunAs> slow = absl::UnknownError("no answer");
  absl::StatusOr<RunAs> quick = absl::UnknownError("no answer");
  bool quick_first = false;
  gate.Admit(kSlowUser, [&](absl::StatusOr<RunAs> result) {
    slow = std::move(result);
    quick_first = quick.ok();
    loop_.Stop();
  });
  gate.Admit("nobody", [&](absl::StatusOr<RunAs> result) { quick = std::move(result); });
  loop_.Run();
  EXPECT_TRUE(absl::IsDeadlineExceeded(slow.status())) << slow.status();
  EXPECT_TRUE(quick_first);
  // What hung ends at some time, without harm.
  LetGo();
}

TEST_F(SystemUserGateTest, AGateThatIsGoneDoesNotAnswer) {
  Allow(std::string(kSlowUser) + "\n");
  bool answered = false;
  {
    SystemUserGate gate(loop_, Options());
    gate.Admit(kSlowUser, [&](const absl::StatusOr<RunAs>&) { answered = true; });
    AwaitHanging(1);
  }
  LetGo();
  loop_.Post([this] { loop_.Stop(); });
  loop_.Run();
  EXPECT_FALSE(answered);
}

}  // namespace
}  // namespace muster
