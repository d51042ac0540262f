#include "tests/process/agent/launcher_fixture.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "agent/node/facts.h"
#include "agent/supervise/attempt_directory.h"
#include "agent/supervise/cgroup.h"
#include "agent/supervise/sweep.h"

namespace muster {

LauncherTest::LauncherTest() {
  options_.node_id = NodeId("node-under-test");
  options_.boot_id = *ReadBootId();
  options_.attempts_directory = temp_.path() + "/attempts";
  options_.shim_binary = SHIM_PROGRAM;
  options_.environ = {"PATH=/usr/bin:/bin"};
  options_.lease_directory = temp_.path() + "/leases";
  options_.cgroup_parent = FindWritableCgroup();
  Restart();
}

LauncherTest::~LauncherTest() {
  // Whatever the test did: nothing that it started survives it.
  launcher_->SetObserver(nullptr);
  size_t swept = 0;
  for (const AttemptId& id : launched_) {
    launcher_->Sweep(id, [&](Launcher::SweepResult) { ++swept; });
  }
  EXPECT_TRUE(Wait([&] { return swept == launched_.size(); }));
  for (const AttemptId& id : launched_) launcher_->Release(id);
  EXPECT_TRUE(Wait([&] { return launcher_->ListAttempts().empty(); }));
}

void LauncherTest::Restart() {
  launcher_.reset();
  auto launcher = ShimLauncher::Create(loop_, options_);
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  launcher_ = *std::move(launcher);
  launcher_->SetObserver(this);
}

bool LauncherTest::Wait(const std::function<bool()>& done, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  bool result = false;
  // Outside conditions (files, processes) have no event of their own here.
  std::function<void()> look = [&] {
    result = done();
    if (result || std::chrono::steady_clock::now() > deadline) {
      loop_.Stop();
    } else {
      loop_.PostAfter(std::chrono::milliseconds(2), look);
    }
  };
  loop_.Post(look);
  loop_.Run();
  return result;
}

internal::ShimBootstrap LauncherTest::Scripts(const AttemptId& id,
                                              const std::vector<std::string>& scripts) const {
  internal::ShimBootstrap bootstrap;
  bootstrap.set_format(1);
  bootstrap.set_job_id(id.job.value());
  bootstrap.set_attempt(id.attempt);
  bootstrap.set_node_id(options_.node_id.value());
  bootstrap.set_working_directory(temp_.path());
  bootstrap.set_grace_ms(2000);
  uint32_t number = 0;
  for (const std::string& script : scripts) {
    internal::ShimRank& rank = *bootstrap.add_ranks();
    rank.set_rank(number);
    rank.set_slot(number++);
    for (const char* word : {"/bin/sh", "-c"}) rank.add_argv(word);
    rank.add_argv(script);
    rank.add_env("PATH=/usr/bin:/bin");
    rank.add_env(fmt::format("MUSTER_JOB_ID={}", id.job.value()));
    rank.add_env(fmt::format("MUSTER_ATTEMPT={}", id.attempt));
    rank.add_env(fmt::format("MUSTER_NODE={}", options_.node_id.value()));
  }
  return bootstrap;
}

void LauncherTest::Start(const AttemptId& id, const std::vector<std::string>& scripts) {
  launched_.push_back(id);
  launcher_->Launch(id, Scripts(id, scripts));
  ASSERT_TRUE(Wait([&] { return Saw(id, internal::ShimRecord::kPrepared) || Gone(id); }));
  ASSERT_FALSE(Gone(id)) << gone_[id];
  internal::ShimRun run;
  run.add_env("MASTER_ADDR=127.0.0.1");
  launcher_->Run(id, run);
  ASSERT_TRUE(Wait([&] { return Saw(id, internal::ShimRecord::kRankStarted, scripts.size()); }));
}

bool LauncherTest::Saw(const AttemptId& id, internal::ShimRecord::BodyCase body,
                       size_t times) const {
  const auto it = records_.find(id);
  if (it == records_.end()) return false;
  return static_cast<size_t>(std::count_if(
             it->second.begin(), it->second.end(),
             [&](const auto& record) { return record.body_case() == body; })) >= times;
}

int LauncherTest::ShimPid(const AttemptId& id) const {
  const auto it = records_.find(id);
  if (it == records_.end()) return 0;
  for (const internal::ShimRecord& record : it->second) {
    if (record.has_begun()) return record.begun().pid();
  }
  return 0;
}

std::string LauncherTest::Directory(const AttemptId& id) const {
  return fmt::format("{}/{}", options_.attempts_directory, AttemptDirectoryName(id));
}

std::string LauncherTest::WaitForLine(const std::string& path) {
  std::string text;
  EXPECT_TRUE(Wait([&] {
    std::ifstream file(path);
    std::ostringstream all;
    all << file.rdbuf();
    text = all.str();
    return !text.empty() && text.back() == '\n';
  })) << path;
  return text;
}

void LauncherTest::OnRecord(const AttemptId& id, const internal::ShimRecord& record) {
  records_[id].push_back(record);
}

void LauncherTest::OnGone(const AttemptId& id, const std::string& reason) {
  EXPECT_FALSE(gone_.contains(id)) << "told twice";
  gone_[id] = reason;
}

bool ProcessLives(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::ostringstream all;
  all << file.rdbuf();
  ProcessStat stat;
  return ParseProcessStat(all.str(), &stat) && stat.state != 'Z' && stat.state != 'X';
}

bool Exists(const std::string& path) {
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0;
}

}  // namespace muster
