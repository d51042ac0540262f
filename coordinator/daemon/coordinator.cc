#include "coordinator/daemon/coordinator.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/random.h>

#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "common/base/annotate.h"
#include "common/log/log.h"
#include "common/rpc/server.h"
#include "coordinator/daemon/growth_relay.h"
#include "coordinator/rpc/agent_service.h"
#include "coordinator/rpc/job_service.h"
#include "coordinator/rpc/node_service.h"
#include "coordinator/store/memory_store.h"
#include "coordinator/store/sqlite_store.h"

namespace muster {
namespace {

uint64_t RandomBits() {
  uint64_t bits = 0;
  // Cannot fail for so few bytes once the kernel has its entropy, which it waits for.
  while (::getrandom(&bits, sizeof bits, 0) != sizeof bits) {
  }
  return bits;
}

absl::StatusOr<std::unique_ptr<Store>> MakeStore(CoordinatorConfig& config, EventLoop& loop) {
  if (config.archive.has_value()) {
    return std::make_unique<MemoryStore>(loop, *std::move(config.archive));
  }
  const bool strict = config.durability == CoordinatorConfig::Durability::kStrict;
  absl::StatusOr<std::unique_ptr<SqliteStore>> store =
      SqliteStore::Open({.path = config.directory + "/store.db",
                         .policy = strict ? SqliteStoreOptions::Policy::kStrict
                                          : SqliteStoreOptions::Policy::kBestEffort,
                         .quarantine_damaged = config.quarantine_damaged,
                         .on_trouble = config.on_trouble},
                        loop);
  if (store.ok()) return *std::move(store);
  if (strict) return store.status();
  spdlog::warn("no store, going on in memory error={}", LogQuoted(MessageOf(store.status())));
  if (config.on_trouble) {
    config.on_trouble(fmt::format("the state of the job cannot be stored: {}; the job goes on",
                                  MessageOf(store.status())));
  }
  return std::make_unique<MemoryStore>(loop);
}

}  // namespace

// In the order in which they depend on each other.
struct Coordinator::Parts {
  EventLoop loop;
  LocalPeers peers;
  std::unique_ptr<Store> store;
  std::unique_ptr<LogStore> logs;
  std::unique_ptr<CoordinatorCore> core;
  std::shared_ptr<GrowthRelay> growth;
  LogReaderHub readers;
  LiveCalls live_calls;
  std::optional<ServiceContext> services;
  std::optional<AgentServiceImpl> agent_service;
  std::optional<JobServiceImpl> job_service;
  std::optional<NodeServiceImpl> node_service;
  std::unique_ptr<Network> network;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<AcceptLoop> listener;
  std::thread thread;
  bool stopped = false;

  absl::Status Build(CoordinatorConfig config);
  void StartThread();
  // Waits until the loop has run everything that was posted before.
  void Fence();
};

absl::Status Coordinator::Parts::Build(CoordinatorConfig config) {
  absl::StatusOr<std::unique_ptr<Store>> opened = MakeStore(config, loop);
  if (!opened.ok()) return opened.status();
  store = *std::move(opened);
  absl::StatusOr<std::unique_ptr<LogStore>> log_store =
      LogStore::Open({.directory = config.directory + "/logs",
                      .durable = config.durability == CoordinatorConfig::Durability::kStrict,
                      .on_trouble = config.on_trouble});
  if (!log_store.ok()) return log_store.status();
  logs = *std::move(log_store);
  if (config.network != nullptr) {
    config.core.alarm = [&to = *config.network](const NodeId& node, std::string_view text) {
      to.RecordAlarm(node, text);
    };
  }
  core = std::make_unique<CoordinatorCore>(config.core, loop, *store, &RandomBits);
  const absl::Status started = core->Start();
  if (!started.ok()) return started;
  growth = std::make_shared<GrowthRelay>(loop, *core);
  logs->SetGlobalListener(growth);
  core->SetForgetListener([this](const JobId& job) { logs->Forget(job); });
  readers.Attach(*core);

  network = std::move(config.network);
  const PeerDirectory& everybody = network != nullptr ? network->MakePeers(peers) : peers;
  services.emplace(
      ServiceContext{loop, *core, *logs, everybody, live_calls, std::move(config.on_job_accepted)});
  agent_service.emplace(*services);
  job_service.emplace(*services, readers);
  node_service.emplace(*services);
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder);
  builder.RegisterService(&*agent_service);
  builder.RegisterService(&*job_service);
  builder.RegisterService(&*node_service);
  if (network != nullptr) network->AddTo(builder, *services);
  server = builder.BuildAndStart();
  if (server == nullptr) return absl::InternalError("the gRPC server does not start");
  listener = std::move(config.listener);
  if (listener != nullptr) listener->Serve(loop, *server, peers);
  return network != nullptr ? network->Serve(loop) : absl::OkStatus();
}

void Coordinator::Parts::StartThread() {
  // Signals belong to the thread that waits for them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread = std::thread([this] { loop.Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), "loop");
}

void Coordinator::Parts::Fence() {
  std::promise<void> reached;
  loop.Post([&reached] { reached.set_value(); });
  reached.get_future().wait();
}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(CoordinatorConfig config) {
  auto parts = std::make_unique<Parts>();
  try {
    const absl::Status built = parts->Build(std::move(config));
    if (!built.ok()) return built;
    parts->StartThread();
  } catch (const std::system_error&) {
    // No thread can be had. gRPC's destructors would wait for threads of its own that were never
    // started, so that nothing is destroyed; the process is about to end.
    (void)parts.release();
    throw;
  }
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(parts)));
}

Coordinator::Coordinator(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Coordinator::~Coordinator() { Stop(); }

std::shared_ptr<grpc::Channel> Coordinator::InProcessChannel(ChannelUse use) {
  return parts_->peers.InProcessChannel(*parts_->server, ChannelSettings(use));
}

EventLoop& Coordinator::loop() { return parts_->loop; }
CoordinatorCore& Coordinator::core() { return *parts_->core; }

bool Coordinator::LogsStored(const JobId& job) {
  std::promise<bool> answer;
  parts_->loop.Post([&] {
    bool stored = true;
    const auto shape = parts_->core->ShapeOf(job);
    for (uint32_t attempt = 1; shape.has_value() && attempt <= shape->attempts; ++attempt) {
      const AttemptId id{job, attempt};
      for (uint32_t rank = 0;; ++rank) {
        const std::optional<RankLogState> state = parts_->core->LogState(id, Rank{rank});
        if (!state.has_value()) break;
        const uint64_t size = parts_->logs->CommittedSize({id, Rank{rank}});
        stored = stored && state->final_size.has_value() && size >= *state->final_size;
      }
    }
    answer.set_value(stored);
  });
  return answer.get_future().get();
}

void Coordinator::Stop(std::chrono::milliseconds grace) {
  Parts& p = *parts_;
  if (std::exchange(p.stopped, true)) return;
  p.loop.Post([&p] {
    p.listener.reset();
    if (p.network != nullptr) p.network->StopListening();
  });
  p.Fence();
  // The loop goes on meanwhile: calls that end need it.
  ShutdownServer(*p.server, grace);
  p.Fence();
  p.loop.Stop();
  p.thread.join();
  // Writes what was appended; answers go nowhere any more.
  p.server.reset();
  p.logs->SetGlobalListener({});
  p.core.reset();
  p.store.reset();
}

}  // namespace muster
