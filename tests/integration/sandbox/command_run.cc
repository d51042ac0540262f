#include "tests/integration/sandbox/command_run.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "tests/integration/sandbox/guard.h"

namespace muster::testing {
namespace {

using Clock = std::chrono::steady_clock;

std::string ReadAll(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::vector<pid_t> AllProcesses() {
  std::vector<pid_t> pids;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return pids;
  while (const dirent* entry = ::readdir(proc)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid > 0) pids.push_back(pid);
  }
  ::closedir(proc);
  return pids;
}

std::string ProcFile(pid_t pid, const char* name) {
  return ReadAll("/proc/" + std::to_string(pid) + "/" + name);
}

std::vector<std::string> SplitAtNul(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, '\0');) parts.push_back(part);
  return parts;
}

// Soft limits of this process while a child is started, which inherits them.
class ScopedSoftLimits {
 public:
  explicit ScopedSoftLimits(const std::map<__rlimit_resource, rlim_t>& limits) {
    for (const auto& [resource, soft] : limits) {
      rlimit before = {};
      EXPECT_EQ(::getrlimit(resource, &before), 0);
      before_.emplace_back(resource, before);
      const rlimit lower = {std::min(soft, before.rlim_max), before.rlim_max};
      EXPECT_EQ(::setrlimit(resource, &lower), 0);
    }
  }
  ~ScopedSoftLimits() {
    for (const auto& [resource, before] : before_) EXPECT_EQ(::setrlimit(resource, &before), 0);
  }
  ScopedSoftLimits(const ScopedSoftLimits&) = delete;
  ScopedSoftLimits& operator=(const ScopedSoftLimits&) = delete;

 private:
  std::vector<std::pair<__rlimit_resource, rlimit>> before_;
};

}  // namespace

bool WaitUntil(const std::function<bool()>& ready, Seconds limit) {
  const auto end = Clock::now() + limit;
  while (!ready()) {
    if (Clock::now() >= end) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

CommandRun::CommandRun(CommandRun&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      status_(other.status_),
      ended_(other.ended_),
      out_path_(std::move(other.out_path_)),
      err_path_(std::move(other.err_path_)),
      out_pipe_(std::move(other.out_pipe_)),
      begin_(other.begin_),
      end_(other.end_) {}

CommandRun::~CommandRun() {
  if (pid_ <= 0 || ended_) return;
  SendToGroup(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool CommandRun::ended() {
  if (ended_) return true;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
  ended_ = true;
  end_ = Clock::now();
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

int CommandRun::Wait(Seconds limit) {
  WaitUntil([this] { return ended(); }, limit);
  return status_;
}

void CommandRun::Send(int signal) const { ::kill(pid_, signal); }
void CommandRun::SendToGroup(int signal) const { ::kill(-pid_, signal); }
std::string CommandRun::out() const { return ReadAll(out_path_); }
std::string CommandRun::err() const { return ReadAll(err_path_); }

double CommandRun::seconds() const {
  return Seconds((ended_ ? end_ : Clock::now()) - begin_).count();
}

Sandbox::Sandbox() {
  std::string name = "/tmp/muster-run-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
  path_ = name;
  GuardSandbox(path_);
  mark_ = "MUSTER_TEST_MARK=" + path_;
  for (const char* folder : {"home", "leases"}) std::filesystem::create_directory(Path(folder));
  // Debian's own interpreter: whatever else comes first in PATH may be a slow wrapper.
  env_ = {{"PATH", "/usr/bin:/bin"},
          {"HOME", Path("home")},
          {"LANG", "C.UTF-8"},
          {"MUSTER_LOCAL", "1"},
          {"MUSTER_LOCAL_DIR", Path("local")},
          {"MUSTER_LEASE_DIR", Path("leases")},
          // Tests may run on an instance of AWS, whose metadata service is none of their business.
          {"AWS_EC2_METADATA_DISABLED", "true"},
          {"MUSTER_TEST_MARK", path_}};
}

Sandbox::~Sandbox() {
  WaitUntil(
      [this] {
        const std::vector<pid_t> left = Processes();
        for (const pid_t pid : left) ::kill(pid, SIGKILL);
        return left.empty();
      },
      Seconds(10));
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  UnguardSandbox(path_);
}

void Sandbox::Write(const std::string& name, const std::string& text) const {
  std::ofstream(Path(name), std::ios::binary) << text;
}

std::string Sandbox::Read(const std::string& name) const { return ReadAll(Path(name)); }

bool Sandbox::Has(const std::string& name) const { return std::filesystem::exists(Path(name)); }

bool Sandbox::WaitFor(const std::string& name, Seconds limit) const {
  return WaitUntil([&] { return Has(name); }, limit);
}

void Sandbox::Hosts(int nodes, int slots) const {
  std::string text;
  for (int i = 1; i <= nodes; ++i) {
    text += "node-" + std::to_string(i) + " slots=" + std::to_string(slots) + "\n";
  }
  Write("hosts", text);
}

std::string Sandbox::Programs() {
  if (const char* folder = std::getenv("MUSTER_BIN_DIR")) return folder;
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

CommandRun Sandbox::Start(const std::vector<std::string>& arguments, Stdout out, int stdin_fd) {
  return StartProgram("coordinator", arguments, out, stdin_fd);
}

CommandRun Sandbox::StartProgram(const std::string& name, const std::vector<std::string>& arguments,
                                 Stdout out, int stdin_fd) {
  CommandRun run;
  const std::string number = std::to_string(++runs_);
  run.err_path_ = Path("stderr." + number);
  const std::string program = name.front() == '/' ? name : Programs() + "/" + name;
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> settings;
  for (const auto& [variable, value] : env_) settings.push_back(variable + "=" + value);
  std::vector<char*> envp;
  for (std::string& setting : settings) envp.push_back(setting.data());
  envp.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, path_.c_str());
  std::string terminal;
  if (out == Stdout::kTerminal) {
    run.out_pipe_.Reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    EXPECT_TRUE(::grantpt(run.out_pipe_.get()) == 0 && ::unlockpt(run.out_pipe_.get()) == 0);
    terminal = ::ptsname(run.out_pipe_.get());
    // The first terminal that the leader of a session opens becomes its own.
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, terminal.c_str(), O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDERR_FILENO);
  } else if (stdin_fd >= 0) {
    posix_spawn_file_actions_adddup2(&actions, stdin_fd, STDIN_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  UniqueFd write_end;
  if (out == Stdout::kPipe) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    run.out_pipe_.Reset(ends[0]);
    write_end.Reset(ends[1]);
    posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  } else if (out == Stdout::kFile) {
    run.out_path_ = Path("stdout." + number);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, run.out_path_.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  }
  if (terminal.empty()) {
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, run.err_path_.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           terminal.empty() ? POSIX_SPAWN_SETPGROUP : POSIX_SPAWN_SETSID);
  const ScopedSoftLimits limits(soft_limits_);
  run.begin_ = Clock::now();
  const int error =
      posix_spawn(&run.pid_, program.c_str(), &actions, &attributes, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) ADD_FAILURE() << "cannot start " << program;
  return run;
}

CommandRun Sandbox::Run(const std::vector<std::string>& arguments) {
  CommandRun run = Start(arguments);
  run.Wait();
  return run;
}

std::vector<pid_t> Sandbox::Processes() const {
  std::vector<pid_t> found;
  for (const pid_t pid : AllProcesses()) {
    const std::string environment = '\0' + ProcFile(pid, "environ");
    if (environment.find('\0' + mark_ + '\0') == std::string::npos) continue;
    if (ProcFile(pid, "comm") == "coordinator\n") continue;
    found.push_back(pid);
  }
  return found;
}

std::vector<std::string> Sandbox::Words(pid_t pid) { return SplitAtNul(ProcFile(pid, "cmdline")); }

std::vector<std::string> Sandbox::Variables(pid_t pid) {
  return SplitAtNul(ProcFile(pid, "environ"));
}

std::vector<pid_t> Sandbox::Agents(const std::string& node) const {
  std::vector<pid_t> found;
  const std::string wanted = std::string("--node-id") + '\0' + node + '\0';
  for (const pid_t pid : Processes()) {
    const std::string words = ProcFile(pid, "cmdline");
    if (ProcFile(pid, "comm") == "agent\n" && words.find(wanted) != std::string::npos) {
      found.push_back(pid);
    }
  }
  return found;
}

}  // namespace muster::testing
