#include "coordinator/daemon/standalone.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <future>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/annotate.h"
#include "common/base/mutex.h"
#include "common/io/atomic_file.h"
#include "common/io/worker_thread.h"
#include "common/log/log.h"
#include "coordinator/daemon/agent_processes.h"
#include "coordinator/daemon/coordinator.h"
#include "coordinator/daemon/local_jobs.h"
#include "coordinator/daemon/machine.h"
#include "coordinator/plan/local_hosts.h"
#include "coordinator/store/directory_lock.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// A folder for a socket whose own folder has too long a path. Only the user can enter it.
absl::StatusOr<std::string> MakeShortFolder() {
  const char* runtime = ::getenv("XDG_RUNTIME_DIR");
  std::vector<std::string> parents;
  if (runtime != nullptr && *runtime == '/') parents.push_back(runtime);
  parents.push_back("/tmp");
  int error = 0;
  for (const std::string& parent : parents) {
    std::string folder = parent + "/muster-XXXXXX";
    if (folder.size() + sizeof "/sock" > AcceptLoop::kMaxPathBytes) continue;
    if (::mkdtemp(folder.data()) != nullptr) return folder;
    error = errno;
  }
  return ErrnoStatus(error, "make a folder for the socket in /tmp");
}

CoordinatorOptions LocalCoordinatorOptions() {
  CoordinatorOptions options;
  options.heartbeat_interval = std::chrono::seconds(1);
  options.lease_ttl = Standalone::kLeaseTtl;
  return options;
}

}  // namespace

struct Standalone::Parts {
  StandaloneOptions options;
  std::string directory;
  std::string folder;
  // Set when the socket is not in `folder`.
  std::string socket_folder;
  std::optional<DirectoryLock> lock;
  std::optional<AgentProcesses> agents;
  std::unique_ptr<Coordinator> coordinator;
  // Deletes old runs beside the start, when there is little else to do.
  std::optional<WorkerThread> pruner;
  bool stopped = false;

  Mutex mutex;
  std::vector<JobId> jobs ABSL_GUARDED_BY(mutex);

  absl::Status MakeFolder();
  absl::StatusOr<std::unique_ptr<AcceptLoop>> Listen(std::string* address);
  absl::Status SpawnAgents(const std::string& address);
  void OnJobAccepted(const JobId& job);
  bool AnythingRuns();
  void OnAgentDeath(const AgentProcesses::Death& death);
  void RemoveSpools();
};

absl::Status Standalone::Parts::MakeFolder() {
  directory = options.directory.empty() ? LocalJobsDirectory() : options.directory;
  absl::Status status = MakeLocalJobsDirectory(directory);
  if (!status.ok()) return status;
  absl::StatusOr<std::string> made = MakeRunFolder(directory);
  if (!made.ok()) return made.status();
  folder = *std::move(made);
  absl::StatusOr<DirectoryLock> locked = DirectoryLock::Acquire(folder);
  if (!locked.ok()) return locked.status();
  lock.emplace(*std::move(locked));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<AcceptLoop>> Standalone::Parts::Listen(std::string* address) {
  std::string path = folder + "/sock";
  if (path.size() > AcceptLoop::kMaxPathBytes) {
    absl::StatusOr<std::string> made = MakeShortFolder();
    if (!made.ok()) return made.status();
    socket_folder = *made;
    path = socket_folder + "/sock";
  }
  absl::StatusOr<std::unique_ptr<AcceptLoop>> listener = AcceptLoop::Listen(path);
  if (!listener.ok()) return listener;
  *address = "unix:" + path;
  const std::error_code error =
      WriteFileAtomically(folder + "/address", *address, 0600, Durability::kProcessCrash);
  if (error) {
    return absl::UnavailableError(fmt::format("write {}/address: {}", folder, error.message()));
  }
  return listener;
}

absl::Status Standalone::Parts::SpawnAgents(const std::string& address) {
  const std::vector<std::string> addresses = MachineAddresses();
  const std::vector<LocalAgent> planned = PlanLocalAgents(options.hosts, addresses);
  if (planned.size() > options.max_agents) {
    return absl::FailedPreconditionError(fmt::format(
        "--local starts one agent per host, and {} hosts are more than the {} that one machine is "
        "made for: select fewer, for example with --num_nodes {}",
        planned.size(), options.max_agents, options.max_agents));
  }
  std::string program = options.agent_program;
  if (program.empty()) {
    absl::StatusOr<std::string> found = FindProgram("agent");
    if (!found.ok()) return found.status();
    program = *std::move(found);
  }
  agents.emplace(program, address, addresses);
  agents->SetDevices(options.devices, options.sysroot);
  if (::mkdir((folder + "/nodes").c_str(), 0700) != 0) {
    return ErrnoStatus(errno, fmt::format("make directory {}/nodes", folder));
  }
  for (size_t i = 0; i < planned.size(); ++i) {
    const std::string state = fmt::format("{}/nodes/{}", folder, i);
    if (::mkdir(state.c_str(), 0700) != 0) {
      return ErrnoStatus(errno, fmt::format("make directory {}", state));
    }
    const absl::Status spawned = agents->Spawn(planned[i], state);
    if (!spawned.ok()) return spawned;
  }
  return absl::OkStatus();
}

void Standalone::Parts::OnJobAccepted(const JobId& job) {
  {
    MutexLock hold(mutex);
    jobs.push_back(job);
  }
  const absl::Status linked = LinkLocalJob(directory, job.value(), folder);
  if (linked.ok()) return;
  spdlog::warn("job not linked job={} error={}", job.value(), LogQuoted(MessageOf(linked)));
  if (options.on_trouble) {
    options.on_trouble(
        fmt::format("job {} will not be found later: {}", job.value(), MessageOf(linked)));
  }
}

// On the loop.
bool Standalone::Parts::AnythingRuns() {
  MutexLock hold(mutex);
  return std::any_of(jobs.begin(), jobs.end(), [this](const JobId& job) {
    const auto shape = coordinator->core().ShapeOf(job);
    return shape.has_value() && shape->attempts > 0;
  });
}

void Standalone::Parts::OnAgentDeath(const AgentProcesses::Death& death) {
  if (options.on_trouble) {
    options.on_trouble(fmt::format("the agent of {} {}{}", death.node_id, death.text,
                                   death.replaced ? "; another one takes its place" : ""));
  }
  if (!death.replaced) {
    coordinator->core().GiveUpNode(NodeId(death.node_id), fmt::format("its agent {}", death.text));
  }
}

void Standalone::Parts::RemoveSpools() {
  std::vector<JobId> accepted;
  {
    MutexLock hold(mutex);
    accepted = jobs;
  }
  for (const JobId& job : accepted) {
    // What did not arrive here is only to be had there.
    if (!coordinator->LogsStored(job)) return;
  }
  std::error_code error;
  for (const fs::directory_entry& node : fs::directory_iterator(folder + "/nodes", error)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(node.path(), error)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".err" && extension != ".log") fs::remove_all(entry.path(), error);
    }
  }
}

absl::StatusOr<std::unique_ptr<Standalone>> Standalone::Start(StandaloneOptions options) {
  auto parts = std::make_unique<Parts>();
  parts->options = std::move(options);
  Parts* p = parts.get();
  absl::Status status = p->MakeFolder();
  if (!status.ok()) return status;
  // Owns the clean-up from here on.
  std::unique_ptr<Standalone> standalone(new Standalone(std::move(parts)));
  // The socket first: agents that start faster than the coordinator wait in its queue.
  std::string address;
  absl::StatusOr<std::unique_ptr<AcceptLoop>> listener = p->Listen(&address);
  if (!listener.ok()) return listener.status();
  status = p->SpawnAgents(address);
  if (!status.ok()) return status;
  p->pruner.emplace("prune");
  p->pruner->Post([directory = p->directory] { (void)PruneLocalRuns(directory); });

  CoordinatorConfig config;
  config.directory = p->folder;
  config.durability = CoordinatorConfig::Durability::kBestEffort;
  config.listener = *std::move(listener);
  config.core = LocalCoordinatorOptions();
  config.on_trouble = p->options.on_trouble;
  config.on_job_accepted = [p](const JobId& job) { p->OnJobAccepted(job); };
  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator = Coordinator::Start(std::move(config));
  if (!coordinator.ok()) return coordinator.status();
  p->coordinator = *std::move(coordinator);
  EventLoop& loop = p->coordinator->loop();
  loop.Post([p, &loop] {
    p->agents->Watch(
        loop, [p] { return !p->AnythingRuns(); },
        [p](const AgentProcesses::Death& death) { p->OnAgentDeath(death); });
  });
  return standalone;
}

Standalone::Standalone(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Standalone::~Standalone() { Stop(); }

std::shared_ptr<grpc::Channel> Standalone::channel(ChannelUse use) {
  return parts_->coordinator->InProcessChannel(use);
}

const std::string& Standalone::folder() const { return parts_->folder; }

void Standalone::Stop(std::chrono::milliseconds limit) {
  Parts& p = *parts_;
  if (std::exchange(p.stopped, true)) return;
  if (p.coordinator != nullptr) {
    std::promise<void> unwatched;
    p.coordinator->loop().Post([&] {
      p.agents->Unwatch();
      unwatched.set_value();
    });
    unwatched.get_future().wait();
  }
  if (p.agents.has_value()) {
    p.agents->Revive();
    p.agents->StopAll(limit);
  }
  if (p.coordinator != nullptr) {
    p.RemoveSpools();
    p.coordinator->Stop();
    p.coordinator.reset();
  }
  std::error_code error;
  if (!p.socket_folder.empty()) fs::remove_all(p.socket_folder, error);
  bool accepted = false;
  {
    MutexLock hold(p.mutex);
    accepted = !p.jobs.empty();
  }
  // Without a job there is nothing to look at later.
  if (!accepted) fs::remove_all(p.folder, error);
  p.lock.reset();
  p.pruner.reset();
}

}  // namespace muster
