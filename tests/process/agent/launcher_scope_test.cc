// The launcher with scopes of a double: groups made by hand, or none, or late.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <deque>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "agent/supervise/attempt_directory.h"
#include "agent/supervise/cgroup.h"
#include "tests/process/agent/launcher_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Record = internal::ShimRecord;

// Makes a scope when it is told to, as a group below the test's own.
class FakeScopes final : public ScopeMaker {
 public:
  FakeScopes(EventLoop& loop, std::string directory)
      : loop_(loop), directory_(std::move(directory)) {
    (void)::mkdir(directory_.c_str(), 0755);
  }
  ~FakeScopes() override {
    for (const std::string& scope : ListCgroups(directory_)) (void)RemoveCgroup(scope);
    (void)RemoveCgroup(directory_);
  }

  void Make(ScopeRequest request, Done done) override {
    waiting.push_back({std::move(request), std::move(done)});
    if (!hold) Answer();
  }
  std::string directory() const override { return directory_; }

  // Gives the one that waits longest its scope, or an error.
  void Answer() {
    auto [request, done] = std::move(waiting.front());
    waiting.pop_front();
    requests.push_back(request);
    absl::StatusOr<std::string> answer = std::string();
    if (!error.ok()) {
      answer = error;
    } else {
      const std::string scope = fmt::format("{}/{}", directory_, request.unit);
      (void)::mkdir(scope.c_str(), 0755);
      std::ofstream(scope + "/cgroup.procs") << request.pid << std::flush;
      answer = scope;
    }
    loop_.Post([done = std::move(done), answer = std::move(answer)] { done(answer); });
  }

  bool hold = false;
  absl::Status error;
  std::deque<std::pair<ScopeRequest, Done>> waiting;
  std::vector<ScopeRequest> requests;

 private:
  EventLoop& loop_;
  const std::string directory_;
};

class LauncherWithScopes : public LauncherTest {
 protected:
  void SetUp() override {
    if (options_.cgroup_parent.empty()) GTEST_SKIP() << "no writable control group";
    scopes_ = std::make_unique<FakeScopes>(
        loop_, fmt::format("{}/test-of-scopes-{}", options_.cgroup_parent, ::getpid()));
    options_.scopes = scopes_.get();
    Restart();
  }
  void TearDown() override {
    // Before the scopes, and with nothing in them.
    for (const AttemptId& id : launched_) {
      bool swept = false;
      launcher_->Sweep(id, [&](Launcher::SweepResult) { swept = true; });
      EXPECT_TRUE(Wait([&] { return swept; }));
      launcher_->Release(id);
    }
    EXPECT_TRUE(Wait([&] { return launcher_->ListAttempts().empty(); }));
    launched_.clear();
    options_.scopes = nullptr;
    Restart();
  }

  std::string GroupOf(int pid) { return CgroupOfProcess(pid); }
  int RankPid(const AttemptId& id) {
    for (const Record& record : records_[id]) {
      if (record.has_rank_started()) return record.rank_started().pid();
    }
    return 0;
  }

  const AttemptId id_ = UniqueAttempt("job-s");
  std::unique_ptr<FakeScopes> scopes_;
};

TEST_F(LauncherWithScopes, PutsShimAndRanksIntoTheScopeOfTheAttempt) {
  Start(id_, {"exec sleep 600"});
  ASSERT_EQ(scopes_->requests.size(), 1u);
  EXPECT_EQ(scopes_->requests[0].unit, ScopeUnitName(id_));
  EXPECT_EQ(scopes_->requests[0].pid, ShimPid(id_));
  EXPECT_THAT(GroupOf(ShimPid(id_)), testing::EndsWith("/" + ScopeUnitName(id_)));
  EXPECT_THAT(GroupOf(RankPid(id_)), HasSubstr("/" + ScopeUnitName(id_) + "/muster-"));
  std::string recorded;
  std::ifstream(Directory(id_) + "/" + kCgroupFile) >> recorded;
  EXPECT_THAT(recorded, StartsWith(scopes_->directory() + "/" + ScopeUnitName(id_) + "/"));
}

TEST_F(LauncherWithScopes, BeginsNothingBeforeTheScopeIsThere) {
  scopes_->hold = true;
  launched_.push_back(id_);
  launcher_->Launch(id_, Scripts(id_, {"exit 0"}));
  ASSERT_TRUE(Wait([&] { return scopes_->waiting.size() == 1; }));
  // The shim is at its only descriptor that can be read, its bootstrap.
  const int shim = scopes_->waiting[0].first.pid;
  EXPECT_TRUE(ProcessLives(shim));
  EXPECT_FALSE(Exists(Directory(id_) + "/" + kRecordsFile));
  scopes_->Answer();
  EXPECT_TRUE(Wait([&] { return Saw(id_, Record::kPrepared); }));
  EXPECT_EQ(ShimPid(id_), shim);
}

TEST_F(LauncherWithScopes, RunsTheJobInTheAgentsGroupWhenThereIsNoScope) {
  scopes_->error = absl::UnavailableError("no bus");
  Start(id_, {"exec sleep 600"});
  EXPECT_THAT(GroupOf(RankPid(id_)), testing::Not(HasSubstr(ScopeUnitName(id_))));
  EXPECT_TRUE(Exists(options_.cgroup_parent + "/" + CgroupName(id_, options_.node_id)));
}

TEST_F(LauncherWithScopes, SweepsAnAttemptThatStillWaitsForItsScope) {
  scopes_->hold = true;
  launcher_->Launch(id_, Scripts(id_, {"exit 0"}));
  ASSERT_TRUE(Wait([&] { return scopes_->waiting.size() == 1; }));
  const int shim = scopes_->waiting[0].first.pid;
  bool swept = false;
  launcher_->Sweep(id_, [&](Launcher::SweepResult) { swept = true; });
  ASSERT_TRUE(Wait([&] { return swept; }));
  EXPECT_FALSE(ProcessLives(shim));
  scopes_->Answer();
  launcher_->Release(id_);
  EXPECT_TRUE(Wait([&] { return launcher_->ListAttempts().empty(); }));
  EXPECT_FALSE(Saw(id_, Record::kBegun));
}

TEST_F(LauncherWithScopes, ReleasesAnAttemptThatStillWaitsForItsScope) {
  scopes_->hold = true;
  launcher_->Launch(id_, Scripts(id_, {"exit 0"}));
  ASSERT_TRUE(Wait([&] { return scopes_->waiting.size() == 1; }));
  const int shim = scopes_->waiting[0].first.pid;
  launcher_->Release(id_);
  scopes_->Answer();
  EXPECT_TRUE(Wait([&] { return launcher_->ListAttempts().empty(); }));
  EXPECT_FALSE(ProcessLives(shim));
}

TEST_F(LauncherWithScopes, AShimWhoseAgentDiesBeforeItBeginsEndsAndCanBeLaunchedAgain) {
  scopes_->hold = true;
  launcher_->Launch(id_, Scripts(id_, {"exit 0"}));
  ASSERT_TRUE(Wait([&] { return scopes_->waiting.size() == 1; }));
  const int shim = scopes_->waiting[0].first.pid;
  Restart();
  EXPECT_TRUE(Wait([&] { return !ProcessLives(shim); }));
  scopes_->Answer();
  scopes_->hold = false;
  Start(id_, {"exit 0"});
  EXPECT_TRUE(Wait([&] { return Saw(id_, Record::kStopped); }));
}

TEST_F(LauncherWithScopes, WhatADeadShimLeavesInTheScopeIsSwept) {
  Start(id_, {"setsid sleep 600 & exec sleep 600"});
  const int rank = RankPid(id_);
  ASSERT_EQ(::kill(ShimPid(id_), SIGKILL), 0);
  ASSERT_TRUE(Wait([&] { return Gone(id_); }));
  bool swept = false;
  launcher_->Sweep(id_, [&](Launcher::SweepResult result) {
    swept = true;
    EXPECT_TRUE(result.unkillable.empty());
  });
  ASSERT_TRUE(Wait([&] { return swept; }));
  EXPECT_FALSE(ProcessLives(rank));
  std::ifstream events(scopes_->directory() + "/" + ScopeUnitName(id_) + "/cgroup.events");
  std::ostringstream text;
  text << events.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("populated 0"));
}

TEST_F(LauncherWithScopes, RemovesGroupsInScopesThatNobodyUses) {
  const std::string scope = scopes_->directory() + "/" + ScopeUnitName(id_);
  ASSERT_EQ(::mkdir(scope.c_str(), 0755), 0);
  absl::StatusOr<HeldCgroup> made = MakeCgroup(scope, CgroupName(id_, options_.node_id));
  ASSERT_TRUE(made.ok()) << made.status();
  made->lock.Reset();
  const timespec times[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, made->directory.c_str(), times, 0), 0);
  options_.stale_cgroups_delay = std::chrono::milliseconds(1);
  Restart();
  EXPECT_TRUE(Wait([&] { return !Exists(made->directory); }));
  EXPECT_TRUE(Exists(scope)) << "the scope is systemd's";
}

}  // namespace
}  // namespace muster
