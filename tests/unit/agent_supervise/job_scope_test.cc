#include "agent/supervise/job_scope.h"

#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

TEST(ScopeUnitName, NamesJobAndAttempt) {
  EXPECT_EQ(ScopeUnitName({JobId("train-7f3a"), 12}), "muster-job-train-7f3a-12.scope");
}

TEST(ScopeUnitName, EscapesWhatUnitNamesCannotHold) {
  EXPECT_EQ(ScopeUnitName({JobId("a/b c\\\xc3\xa4"), 1}),
            "muster-job-a\\x2fb\\x20c\\x5c\\xc3\\xa4-1.scope");
}

TEST(ScopeDescription, SaysWhoseAttemptItIs) {
  EXPECT_EQ(ScopeDescription("alice, job 7f3a", 2), "Muster: alice, job 7f3a, attempt 2");
  EXPECT_EQ(ScopeDescription("", 2), "Muster: attempt 2");
}

TEST(ScopeDescription, IsOneShortLineOfPlainText) {
  EXPECT_EQ(ScopeDescription("a\nb\x1b[2J\xff", 1), "Muster: a?b?[2J?, attempt 1");
  EXPECT_LT(ScopeDescription(std::string(100'000, 'x'), 1).size(), 300u);
}

TEST(IsSliceName, TakesNamesOfSlicesBelowTheRoot) {
  for (const char* name : {"muster-jobs.slice", "a.slice", "a-b-c.slice", "a_1.b.slice"}) {
    EXPECT_TRUE(IsSliceName(name)) << name;
  }
  EXPECT_TRUE(IsSliceName(kDefaultJobSlice));
}

TEST(IsSliceName, RefusesWhatSystemdWould) {
  for (const char* name : {"", "slice", ".slice", "-.slice", "-a.slice", "a-.slice", "a--b.slice",
                           "a.service", "../a.slice", "a/b.slice", "a b.slice", "a.slice\n"}) {
    EXPECT_FALSE(IsSliceName(name)) << name;
  }
  EXPECT_FALSE(IsSliceName(std::string(250, 'x') + ".slice"));
}

TEST(SliceCgroup, IsBelowTheSlicesThatItsNameTells) {
  EXPECT_EQ(SliceCgroup("a.slice"), "/a.slice");
  EXPECT_EQ(SliceCgroup("muster-jobs.slice"), "/muster.slice/muster-jobs.slice");
  EXPECT_EQ(SliceCgroup("a-b-c.slice"), "/a.slice/a-b.slice/a-b-c.slice");
}

TEST(IsSystemService, IsTrueOfServicesOfTheSystem) {
  EXPECT_TRUE(IsSystemService("/system.slice/muster-agent.service"));
  EXPECT_TRUE(IsSystemService("/muster.slice/muster-agent.service"));
}

TEST(IsSystemService, IsFalseOfShellsUsersAndContainers) {
  for (const char* path :
       {"", "/", "/init.scope", "/user.slice/user-0.slice/session-3.scope",
        "/user.slice/user-0.slice/user@0.service/app.slice/muster-agent.service",
        "/user.slice/user-1000.slice/user@1000.service", "/system.slice/docker-7f3a.scope",
        "/system.slice/docker.service/7f3a"}) {
    EXPECT_FALSE(IsSystemService(path)) << path;
  }
}

TEST(IsStartedBySystemd, LooksForWhomTheEnvironmentWasMade) {
  EXPECT_TRUE(IsStartedBySystemd({"PATH=/bin", "SYSTEMD_EXEC_PID=17"}, 17));
  EXPECT_TRUE(IsStartedBySystemd({"WATCHDOG_PID=17"}, 17));
  EXPECT_FALSE(IsStartedBySystemd({"SYSTEMD_EXEC_PID=16", "WATCHDOG_PID=16"}, 17));
  EXPECT_FALSE(IsStartedBySystemd({"SYSTEMD_EXEC_PID=170", "PATH=/bin"}, 17));
  EXPECT_FALSE(IsStartedBySystemd({}, 17));
}

}  // namespace
}  // namespace muster
