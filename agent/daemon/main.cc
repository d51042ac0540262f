// The agent program: serves one node.
#include <absl/status/statusor.h>
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "agent/binding/topology.h"
#include "agent/daemon/agent.h"
#include "agent/daemon/config.h"
#include "agent/daemon/doctor.h"
#include "agent/daemon/private_state.h"
#include "agent/devices/hlml_library.h"
#include "agent/devices/hlml_query.h"
#include "agent/node/system_user_gate.h"
#include "common/base/annotate.h"
#include "common/base/signal_names.h"
#include "common/base/version.h"
#include "common/io/oom_score.h"
#include "common/io/service_notify.h"
#include "common/io/state_lock.h"
#include "common/io/state_owner.h"
#include "common/io/unique_fd.h"
#include "common/log/log.h"
#include "common/rpc/channel.h"
#include "common/rpc/process.h"

namespace {

constexpr int kFailed = 1;
constexpr int kBadUsage = 2;
// How long a new agent waits for one that was told or made to end.
constexpr std::chrono::milliseconds kLockPatience{2000};
// What is not given back by then is given back by the kernel.
constexpr unsigned kEndLimitSeconds = 5;
// Signals that end the agent are served by its loop, so that a start that hangs would never end.
constexpr unsigned kStartLimitSeconds = 20;
// How long the agent of one job waits for a coordinator to join.
constexpr std::chrono::seconds kEphemeralJoinPatience{30};
// With fewer gRPC and the loop do not even start.
constexpr rlim_t kFewestFiles = 64;

absl::Status RaiseOpenFileLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  limit.rlim_cur = limit.rlim_max;
  // Fails in rare containers only; then the lower limit has to do.
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max >= kFewestFiles) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("the limit of open files is {}, but at least {} are needed (ulimit -n)",
                  limit.rlim_max, kFewestFiles));
}

// The agent is spared when memory runs out, but not exempt: what cannot be killed can spin in a
// full control group for ever. Returns what ranks are to have: what it had before, or 0 when a
// service manager has asked already; nothing when they are to inherit what the agent has.
std::optional<int> AskToBeSpared() {
  constexpr int kAgentOomScore = -900;
  const std::optional<int> before = muster::ReadOomScore();
  if (!before.has_value()) return std::nullopt;
  if (*before <= kAgentOomScore) return 0;
  if (!muster::WriteOomScore(kAgentOomScore)) return std::nullopt;
  return before;
}

// Ends the process should the start take too long, from here to `EndStartLimit`.
void BeginStartLimit() {
  ::signal(SIGALRM, [](int) {
    constexpr std::string_view kText = "agent: the start took longer than 20 s\n";
    (void)!::write(STDERR_FILENO, kText.data(), kText.size());
    ::_exit(kFailed);
  });
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  ::sigprocmask(SIG_UNBLOCK, &alarm, nullptr);
  ::alarm(kStartLimitSeconds);
}

void EndStartLimit() {
  ::alarm(0);
  ::signal(SIGALRM, SIG_DFL);
}

// std::thread throws where no thread can be had.
absl::StatusOr<std::unique_ptr<muster::Agent>> CreateAgent(const muster::AgentConfig& config) {
  BeginStartLimit();
  try {
    absl::StatusOr<std::unique_ptr<muster::Agent>> agent = muster::Agent::Create(config);
    EndStartLimit();
    return agent;
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        fmt::format("cannot start a thread: {} (the limits of processes and memory, ulimit -u and "
                    "ulimit -v, may be too low)",
                    error.code().message()));
  }
}

// Signals that end the agent. An inherited "ignore" of SIGHUP (nohup) stays.
sigset_t EndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  struct sigaction hangup = {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
    sigaddset(&signals, SIGHUP);
  }
  return signals;
}

// To stderr in every case: a log file is not where people look first.
int Fail(const absl::Status& status) {
  const std::string text(muster::MessageOf(status));
  std::fprintf(stderr, "agent: %s\n", text.c_str());
  // A service manager need not try again what only a person can mend.
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ? kBadUsage
                                                                               : kFailed;
}

// A list that cannot be read is told now, and not only to the first who submits a job.
absl::Status CheckAllowList(const muster::AgentConfig& config) {
  if (::geteuid() != 0) return absl::OkStatus();
  const absl::StatusOr<muster::AllowList> list = muster::ReadAllowList(config.allow_file);
  if (!list.ok()) return absl::FailedPreconditionError(list.status().message());
  if (list->empty() && config.allowed_users.empty()) {
    spdlog::warn("no user may run jobs here allow_file={}", muster::LogQuoted(config.allow_file));
  }
  return absl::OkStatus();
}

// Returns the exit status when the agent is not to serve.
std::optional<int> JoinFirst(const muster::AgentConfig& config, const sigset_t& ending) {
  if (!config.first_join) return std::nullopt;
  const absl::Status joined = muster::JoinUnlessMember(
      *config.first_join, ending,
      config.ephemeral ? std::optional(kEphemeralJoinPatience) : std::nullopt);
  if (joined.ok()) return std::nullopt;
  const int status = Fail(joined);
  return absl::IsCancelled(joined) ? 0 : status;
}

int Serve(muster::AgentConfig config) {
  // Before any thread exists, so that all inherit it.
  const sigset_t ending = EndingSignals();
  ::sigprocmask(SIG_BLOCK, &ending, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  muster::PrepareProcessForGrpc();
  // Outlives all that works in it.
  std::optional<muster::PrivateState> private_state;
  if (config.state_directory.empty()) {
    absl::StatusOr<muster::PrivateState> made =
        muster::PrivateState::Make(muster::FindVariable(config.environ, "TMPDIR").value_or(""));
    if (!made.ok()) return Fail(made.status());
    config.state_directory = made->path();
    config.first_join->state_directory = made->path();
    private_state.emplace(*std::move(made));
  }
  if (const std::optional<int> status = JoinFirst(config, ending)) return *status;
  absl::Status status = RaiseOpenFileLimit();
  if (!status.ok()) return Fail(status);

  config.rank_oom_score_adj = AskToBeSpared();

  status = muster::CheckOwnerOf(config.state_directory);
  if (status.ok()) status = muster::MakeStateDirectory(config.state_directory);
  if (!status.ok()) return Fail(status);
  absl::StatusOr<muster::UniqueFd> lock =
      muster::LockStateDirectory(config.state_directory, "agent", kLockPatience);
  if (!lock.ok()) {
    // Not for a person: the other agent may end.
    (void)Fail(lock.status());
    return kFailed;
  }
  muster::LogOptions log = {.file = "", .level = config.log_level};
  if (config.ephemeral) {
    log.level = "warn";
    // Where it is removed nobody could read it.
    if (!private_state) log.file = config.state_directory + "/agent.log";
  }
  status = muster::SetUpLog(log);
  if (!status.ok()) spdlog::warn("log error={}", muster::LogQuoted(muster::MessageOf(status)));
  if (!muster::IsUnixTarget(config.coordinator)) {
    status = muster::TakeMembership(config.state_directory, config.node_id);
    if (!status.ok()) return Fail(status);
    status = CheckAllowList(config);
    if (!status.ok()) return Fail(status);
  }
  spdlog::info("agent starts version={} node={} coordinator={}", muster::kVersion,
               muster::LogQuoted(config.node_id.value()), muster::LogQuoted(config.coordinator));

  absl::StatusOr<std::unique_ptr<muster::Agent>> agent = CreateAgent(config);
  if (!agent.ok()) return Fail(agent.status());
  const muster::UniqueFd signals(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return Fail(muster::ErrnoStatus(errno, "signalfd"));
  muster::EventLoop& loop = (*agent)->loop();
  loop.WatchFd(signals.get(), EPOLLIN, [&](uint32_t) {
    signalfd_siginfo info = {};
    if (::read(signals.get(), &info, sizeof(info)) != sizeof(info)) return;
    const auto signal = static_cast<int>(info.ssi_signo);
    spdlog::info("agent leaves signal={}", muster::SignalName(signal));
    (*agent)->Leave(signal);
  });
  {
    muster::ServiceNotify notify(loop,
                                 muster::ServiceNotify::TakenFrom(config.environ, ::getpid()));
    notify.Ready([&] { return (*agent)->Status(); });
    (*agent)->Run();
    notify.Stopping();
  }
  loop.UnwatchFd(signals.get());
  ::signal(SIGALRM, [](int) { ::_exit(0); });
  ::alarm(kEndLimitSeconds);
  agent->reset();
  spdlog::info("agent ended");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // A child of an agent, see agent/devices/hlml_query.h; not a command for people.
  if (argc == 3 && std::strcmp(argv[1], muster::kHlmlQueryCommand) == 0) {
    return muster::RunHlmlQuery(argv[2]);
  }
  muster::CommandLine line = muster::ParseCommandLine(argc, argv, environ);
  if (line.text) {
    std::fputs(line.text->c_str(), line.error ? stderr : stdout);
    return line.exit_code;
  }
  if (line.join) return muster::RunJoin(*line.join);
  if (line.doctor) return muster::RunDoctor(line.config, line.json);
  muster::KeepTopologyPlain();
  return Serve(std::move(line.config));
}
