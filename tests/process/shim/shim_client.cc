#include "tests/process/shim/shim_client.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/shim/process_tree.h"
#include "common/io/atomic_file.h"

namespace muster::testing {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point After(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

int MillisecondsTo(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1000));
}

}  // namespace

AttemptFolder::AttemptFolder() {
  const char* base = std::getenv("TMPDIR");
  std::string name = std::string(base != nullptr ? base : "/tmp") + "/muster-shim-test-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

AttemptFolder::~AttemptFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

DecodedLog ReadLogFile(const std::string& path) {
  DecodedLog log;
  std::string bytes;
  if (ReadFile(path, bytes, size_t{4} << 30)) return log;
  FrameReader reader;
  reader.Feed(bytes);
  while (const auto frame = reader.Next()) {
    ++log.frame_count;
    switch (frame->kind) {
      case FrameKind::kStdout:
        log.stdout_bytes += frame->payload;
        log.both += frame->payload;
        break;
      case FrameKind::kStderr:
        log.stderr_bytes += frame->payload;
        log.both += frame->payload;
        break;
      case FrameKind::kGap:
      case FrameKind::kHole: {
        const auto gap = DroppedBy(*frame);
        log.gaps.stdout_bytes += gap->stdout_bytes;
        log.gaps.stderr_bytes += gap->stderr_bytes;
        ++(frame->kind == FrameKind::kGap ? log.gap_count : log.hole_count);
        if (frame->kind == FrameKind::kHole) log.before_last_hole = log.both.size();
        break;
      }
      case FrameKind::kEnd:
        log.end = DecodeFrameEnd(frame->payload);
        break;
    }
  }
  log.corrupt = reader.corrupt();
  log.cut_bytes = reader.partial_bytes();
  return log;
}

std::string ProgramPath(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

bool IsAlive(pid_t pid) {
  const auto process = shim::ReadProcess(pid);
  return process && !process->dead();
}

std::vector<pid_t> ReadPids(const std::string& path) {
  std::vector<pid_t> pids;
  std::ifstream file(path);
  pid_t pid = 0;
  while (file >> pid) pids.push_back(pid);
  return pids;
}

int CountProcessesWith(const std::string& text) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    std::string environment;
    if (pid <= 0 || ReadFile(entry.path() / "environ", environment)) continue;
    if (environment.find(text) != std::string::npos && IsAlive(pid)) ++count;
  }
  return count;
}

bool Eventually(const std::function<bool()>& condition, double seconds) {
  const auto deadline = After(seconds);
  while (!condition()) {
    if (Clock::now() >= deadline) return false;
    (void)::poll(nullptr, 0, 2);
  }
  return true;
}

ShimClient::ShimClient(const std::string& folder, const std::string& name,
                       const std::string& lease_folder)
    : directory_(folder + "/" + name) {
  std::filesystem::create_directories(directory_);
  bootstrap.set_format(1);
  bootstrap.set_job_id("test-" + name);
  bootstrap.set_attempt(1);
  bootstrap.set_node_id("node-1");
  bootstrap.set_attempt_directory(directory_);
  bootstrap.set_lease_directory(lease_folder);
  bootstrap.set_working_directory(folder);
  bootstrap.set_grace_ms(2000);
  bootstrap.set_holder("tester, job " + name);
}

ShimClient::~ShimClient() {
  if (pid_ <= 0 || exited_) return;
  // Its ranks die with it; what they have started is killed by the shim if it is given the time.
  ::kill(pid_, SIGCONT);
  if (socket_ || Connect()) Stop(0);
  (void)WaitFor([](const auto& r) { return r.has_stopped() || r.has_prepare_failed(); }, 5);
  ::kill(pid_, SIGKILL);
  (void)WaitExit(5);
}

internal::ShimRank& ShimClient::AddProbe(const std::vector<std::string>& steps) {
  std::vector<std::string> argv = {ProgramPath("rank_probe")};
  argv.insert(argv.end(), steps.begin(), steps.end());
  return AddRank(argv);
}

internal::ShimRank& ShimClient::AddRank(const std::vector<std::string>& argv) {
  const auto number = static_cast<uint32_t>(bootstrap.ranks_size());
  internal::ShimRank& rank = *bootstrap.add_ranks();
  rank.set_rank(number);
  rank.set_slot(number);
  for (const std::string& argument : argv) rank.add_argv(argument);
  rank.add_env("RANK=" + std::to_string(number));
  rank.add_env("PATH=/usr/local/bin:/usr/bin:/bin");
  bootstrap.add_slots(number);
  return rank;
}

void ShimClient::Start() {
  const std::string input = bootstrap.SerializeAsString();
  const std::string program = ProgramPath("muster-shim");
  int in[2];
  int out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    if (file_size_limit != 0) {
      const struct rlimit limit = {file_size_limit, file_size_limit};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ::execl(program.c_str(), program.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  std::string_view left = input;
  while (!left.empty()) {
    const ssize_t count = ::write(in[1], left.data(), left.size());
    if (count <= 0) break;
    left.remove_prefix(static_cast<size_t>(count));
  }
  ::close(in[1]);
  pollfd ready = {out[0], POLLIN, 0};
  (void)::poll(&ready, 1, 20'000);
  ::close(out[0]);
}

bool ShimClient::Connect(uint64_t next_index) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  // By the folder's descriptor: the path may be longer than a socket address.
  const UniqueFd folder(::open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string path = "/proc/self/fd/" + std::to_string(folder.get()) + "/sock";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return false;
  }
  socket_ = std::move(fd);
  internal::ShimRequest request;
  request.mutable_attach()->set_next_index(next_index);
  Send(request);
  return true;
}

bool ShimClient::StartAndPrepare() {
  Start();
  if (!Connect()) return false;
  const internal::ShimRecord* answer = WaitFor(
      [](const auto& record) { return record.has_prepared() || record.has_prepare_failed(); });
  return answer != nullptr && answer->has_prepared();
}

void ShimClient::Send(const internal::ShimRequest& request) {
  const std::string packet = request.SerializeAsString();
  (void)!::send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL);
}

void ShimClient::Run(const std::vector<std::string>& env) {
  internal::ShimRequest request;
  request.mutable_run();
  for (const std::string& variable : env) request.mutable_run()->add_env(variable);
  Send(request);
}

void ShimClient::Stop(int grace_ms, const std::string& reason) {
  internal::ShimRequest request;
  request.mutable_stop()->set_grace_ms(static_cast<uint64_t>(grace_ms));
  request.mutable_stop()->set_reason(reason);
  Send(request);
}

void ShimClient::Signal(int signal, const std::vector<uint32_t>& ranks) {
  internal::ShimRequest request;
  request.mutable_signal()->set_signal(signal);
  for (const uint32_t rank : ranks) request.mutable_signal()->add_ranks(rank);
  Send(request);
}

void ShimClient::Renew(int lease_ms) {
  internal::ShimRequest request;
  request.mutable_renew()->set_lease_ms(static_cast<uint64_t>(lease_ms));
  Send(request);
}

void ShimClient::Commit(uint32_t rank, uint64_t size) {
  internal::ShimRequest request;
  request.mutable_committed()->set_rank(rank);
  request.mutable_committed()->set_size(size);
  Send(request);
}

void ShimClient::Quit() {
  internal::ShimRequest request;
  request.mutable_quit();
  Send(request);
}

bool ShimClient::ReceiveOne(int timeout_ms) {
  if (!socket_) return false;
  pollfd ready = {socket_.get(), POLLIN, 0};
  if (::poll(&ready, 1, timeout_ms) <= 0) return false;
  std::string packet(size_t{1} << 20, '\0');
  const ssize_t count = ::recv(socket_.get(), packet.data(), packet.size(), 0);
  if (count <= 0) {
    socket_.Reset();
    return false;
  }
  internal::ShimRecord record;
  if (!record.ParseFromArray(packet.data(), static_cast<int>(count))) return false;
  // No record of the file.
  if (record.has_logs_grew()) return true;
  records_.push_back(std::move(record));
  return true;
}

const internal::ShimRecord* ShimClient::WaitFor(
    const std::function<bool(const internal::ShimRecord&)>& wanted, double seconds) {
  const auto deadline = After(seconds);
  for (size_t i = 0;; ++i) {
    while (i >= records_.size()) {
      if (ReceiveOne(MillisecondsTo(deadline))) continue;
      if (!socket_ || Clock::now() >= deadline) return nullptr;
    }
    if (wanted(records_[i])) return &records_[i];
  }
}

const internal::ShimRankStarted* ShimClient::WaitStarted(uint32_t rank, double seconds) {
  const auto* record = WaitFor(
      [rank](const auto& r) { return r.has_rank_started() && r.rank_started().rank() == rank; },
      seconds);
  return record != nullptr ? &record->rank_started() : nullptr;
}

const internal::ShimRankExited* ShimClient::WaitExited(uint32_t rank, double seconds) {
  const auto* record = WaitFor(
      [rank](const auto& r) { return r.has_rank_exited() && r.rank_exited().rank() == rank; },
      seconds);
  return record != nullptr ? &record->rank_exited() : nullptr;
}

const internal::ShimLogClosed* ShimClient::WaitLogClosed(uint32_t rank, double seconds) {
  const auto* record =
      WaitFor([rank](const auto& r) { return r.has_log_closed() && r.log_closed().rank() == rank; },
              seconds);
  return record != nullptr ? &record->log_closed() : nullptr;
}

const internal::ShimStopped* ShimClient::WaitStopped(double seconds) {
  const auto* record = WaitFor([](const auto& r) { return r.has_stopped(); }, seconds);
  return record != nullptr ? &record->stopped() : nullptr;
}

void ShimClient::ReceiveAll() {
  while (ReceiveOne(0)) {
  }
}

int ShimClient::WaitExit(double seconds) {
  const auto poll_exit = [this] {
    if (exited_) return true;
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
    exited_ = true;
    status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return true;
  };
  return Eventually(poll_exit, seconds) ? status_ : -1;
}

bool ShimClient::RunToEnd(double seconds) {
  if (!StartAndPrepare()) return false;
  Run();
  if (WaitStopped(seconds) == nullptr) return false;
  Quit();
  return WaitExit() == 0;
}

std::string ShimClient::LogPath(uint32_t rank) const {
  char name[32];
  std::snprintf(name, sizeof(name), "/rank-%05u.log", rank);
  return directory_ + name;
}

std::string ShimClient::Problems() const {
  std::string text;
  for (const internal::ShimRecord& record : records_) {
    for (const internal::ShimProblem& problem : record.prepare_failed().problems()) {
      text += problem.check() + ": " + problem.message() + "\n";
    }
  }
  return text;
}

}  // namespace muster::testing
