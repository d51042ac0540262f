#include "tests/process/agent/agent_process.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "agent/supervise/attempt_directory.h"
#include "agent/supervise/cgroup.h"
#include "agent/supervise/sweep.h"
#include "common/io/log_frame.h"
#include "tests/process/agent/launcher_fixture.h"

namespace muster {
namespace {

using google::protobuf::util::TimeUtil;
using std::chrono::milliseconds;

constexpr char kNode[] = "node-under-test";

}  // namespace

AgentProcess::AgentProcess(const std::vector<std::string>& arguments,
                           const std::vector<std::string>& variables) {
  const auto pointers = [](const std::vector<std::string>& strings) {
    std::vector<char*> all;
    for (const std::string& one : strings) all.push_back(const_cast<char*>(one.c_str()));
    all.push_back(nullptr);
    return all;
  };
  std::vector<std::string> argv = arguments;
  argv.insert(argv.begin(), "agent");
  started_ = std::chrono::steady_clock::now();
  EXPECT_EQ(::posix_spawn(&pid_, AGENT_PROGRAM, nullptr, nullptr, pointers(argv).data(),
                          pointers(variables).data()),
            0);
  pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
}

AgentProcess::~AgentProcess() {
  KillNow();
  ::close(pidfd_);
}

void AgentProcess::Signal(int signal) {
  if (!status_) ::kill(pid_, signal);
}

void AgentProcess::KillNow() {
  Signal(SIGKILL);
  Wait();
}

std::optional<int> AgentProcess::Wait(std::chrono::seconds limit) {
  if (status_) return status_;
  pollfd wait = {pidfd_, POLLIN, 0};
  if (::poll(&wait, 1, static_cast<int>(milliseconds(limit).count())) != 1) return std::nullopt;
  int status = 0;
  EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
  status_ = status;
  return status_;
}

long AgentProcess::ResidentKib() const {
  std::ifstream file(fmt::format("/proc/{}/status", pid_));
  std::string word;
  long kib = 0;
  while (file >> word) {
    if (word == "VmRSS:" && file >> kib) break;
  }
  return kib;
}

AgentTest::AgentTest() : coordinator_(temp_.path() + "/sock") {
  variables_ = {"PATH=/usr/bin:/bin", "HOME=" + temp_.path(),
                "MUSTER_LEASE_DIR=" + temp_.path() + "/leases", "MUSTER_LOG=warn"};
}

AgentTest::~AgentTest() {
  for (const std::string& error : coordinator_.Read().errors) ADD_FAILURE() << error;
  agent_.reset();
  coordinator_.Stop();
  // Whatever the test did: nothing that it started survives it.
  for (const AttemptId& id : attempts_) {
    if (const int shim = ShimPid(id); shim > 0 && ProcessLives(shim)) ::kill(shim, SIGKILL);
    EXPECT_TRUE(WaitUntil([&] { return !ProcessLives(ShimPid(id)); }));
    SweepTarget target;
    target.attempt = id;
    target.node = NodeId(kNode);
    std::ifstream(AttemptDirectory(id) + "/" + kCgroupFile) >> target.cgroup_directory;
    EXPECT_TRUE(Sweep(target, std::chrono::seconds(10)).unkillable.empty());
    if (!target.cgroup_directory.empty()) {
      EXPECT_TRUE(RemoveCgroup(target.cgroup_directory).ok());
    }
  }
}

void AgentTest::StartAgent(bool ephemeral) {
  std::vector<std::string> arguments = {"run",
                                        "--node-id",
                                        kNode,
                                        "--coordinator",
                                        coordinator_.target(),
                                        "--state-dir",
                                        temp_.path() + "/state",
                                        "--slots",
                                        "8",
                                        "--address",
                                        "127.0.0.1"};
  if (ephemeral) arguments.push_back("--ephemeral");
  agent_ = std::make_unique<AgentProcess>(arguments, variables_);
}

v1::Assignment AgentTest::Prepared(const AttemptId& id, uint32_t ranks, const std::string& script) {
  if (std::find(attempts_.begin(), attempts_.end(), id) == attempts_.end()) attempts_.push_back(id);
  v1::Assignment assignment;
  assignment.mutable_key()->set_job_id(id.job.value());
  assignment.mutable_key()->set_attempt(id.attempt);
  assignment.set_desired(v1::Assignment::PREPARED);
  v1::LaunchSpec& launch = *assignment.mutable_launch();
  for (uint32_t i = 0; i < ranks; ++i) {
    v1::RankSpec& rank = *launch.add_ranks();
    rank.set_rank(i);
    rank.set_local_rank(i);
    rank.set_slot(i);
    v1::EnvPair& pair = *rank.add_env();
    pair.set_name("RANK");
    pair.set_value(std::to_string(i));
  }
  for (const std::string& word : {std::string("/bin/sh"), std::string("-c"), script})
    launch.add_argv(word);
  launch.set_working_directory(temp_.path());
  *launch.mutable_stop_grace() = TimeUtil::MillisecondsToDuration(2000);
  launch.mutable_rendezvous();
  launch.set_holder("a test");
  return assignment;
}

void AgentTest::Run(const AttemptId& id, uint32_t ranks, const std::string& script) {
  Run(Prepared(id, ranks, script));
}

void AgentTest::Run(v1::Assignment assignment) {
  const AttemptId id{JobId(assignment.key().job_id()), assignment.key().attempt()};
  coordinator_.Want(assignment);
  ASSERT_TRUE(coordinator_.Wait([&](const auto& state) {
    return std::any_of(state.events.begin(), state.events.end(), [&](const v1::Event& event) {
      return event.key().job_id() == id.job.value() &&
             (event.has_prepared() || event.has_prepare_failed());
    });
  }));
  ASSERT_EQ(Events(id, v1::Event::kPrepared).size(), 1u)
      << Events(id, v1::Event::kPrepareFailed)[0].ShortDebugString();
  assignment.set_desired(v1::Assignment::RUNNING);
  assignment.mutable_rendezvous()->set_address("127.0.0.1");
  assignment.mutable_rendezvous()->set_port(
      Events(id, v1::Event::kPrepared)[0].prepared().rendezvous_port());
  coordinator_.Want(assignment);
  ASSERT_TRUE(
      WaitFor(id, v1::Event::kRankStarted, static_cast<size_t>(assignment.launch().ranks_size())));
}

void AgentTest::Stop(const AttemptId& id, milliseconds grace) {
  v1::Assignment assignment;
  assignment.mutable_key()->set_job_id(id.job.value());
  assignment.mutable_key()->set_attempt(id.attempt);
  assignment.set_desired(v1::Assignment::STOPPED);
  *assignment.mutable_stop_grace() = TimeUtil::MillisecondsToDuration(grace.count());
  coordinator_.Want(assignment);
}

void AgentTest::Release(const AttemptId& id) {
  v1::Assignment assignment;
  assignment.mutable_key()->set_job_id(id.job.value());
  assignment.mutable_key()->set_attempt(id.attempt);
  assignment.set_desired(v1::Assignment::RELEASED);
  coordinator_.Want(assignment);
}

std::vector<v1::Event> AgentTest::Events(const AttemptId& id, v1::Event::BodyCase body) const {
  std::vector<v1::Event> found;
  for (const v1::Event& event : coordinator_.Read().events) {
    const bool ours = event.key().job_id() == id.job.value() && event.key().attempt() == id.attempt;
    if (ours && event.body_case() == body) found.push_back(event);
  }
  return found;
}

bool AgentTest::WaitFor(const AttemptId& id, v1::Event::BodyCase body, size_t times) {
  return coordinator_.Wait([&](const auto& state) {
    size_t count = 0;
    for (const v1::Event& event : state.events) {
      if (event.key().job_id() == id.job.value() && event.body_case() == body) ++count;
    }
    return count >= times;
  });
}

std::string AgentTest::CompleteOutput(const AttemptId& id, uint32_t rank) {
  std::string output;
  EXPECT_TRUE(coordinator_.Wait([&](const auto& state) {
    const auto it = state.logs.find({id, rank});
    if (it == state.logs.end()) return false;
    output.clear();
    FrameReader reader;
    reader.Feed(it->second);
    while (const std::optional<Frame> frame = reader.Next()) {
      if (frame->kind == FrameKind::kStdout) output += frame->payload;
      EXPECT_FALSE(DroppedBy(*frame));
    }
    EXPECT_FALSE(reader.corrupt());
    return reader.ended();
  }));
  return output;
}

std::string AgentTest::AttemptDirectory(const AttemptId& id) const {
  return fmt::format("{}/state/attempts/{}", temp_.path(), AttemptDirectoryName(id));
}

int AgentTest::ShimPid(const AttemptId& id) const {
  const int root =
      ::open((temp_.path() + "/state/attempts").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return 0;
  int pid = 0;
  const auto directory = AttemptDirectory::Open(root, "", id);
  ::close(root);
  if (!directory.ok()) return 0;
  EXPECT_TRUE(directory
                  ->ReadRecords(1,
                                [&](const internal::ShimRecord& record) {
                                  pid = record.begun().pid();
                                  return false;
                                })
                  .ok());
  return pid;
}

bool AgentTest::WaitUntil(const std::function<bool()>& done, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    // paces: conditions of other processes have no event of their own.
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

}  // namespace muster
