#include "coordinator/daemon/service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "common/base/annotate.h"
#include "common/io/state_lock.h"
#include "common/io/state_owner.h"
#include "common/io/unique_fd.h"
#include "common/log/log.h"
#include "coordinator/daemon/coordinator.h"

namespace muster {
namespace {

// How long a new coordinator waits for one that was told or made to end.
constexpr std::chrono::milliseconds kLockPatience{2000};

std::string Variable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

// The first of what systemd gives, a list separated by colons.
std::string FirstOf(const std::string& list) { return list.substr(0, list.find(':')); }

std::string DefaultStateDirectory() {
  if (std::string given = FirstOf(Variable("STATE_DIRECTORY")); !given.empty()) return given;
  if (::geteuid() == 0) return "/var/lib/muster/coordinator";
  if (std::string state = Variable("XDG_STATE_HOME"); state.starts_with("/")) {
    return state + "/muster/coordinator";
  }
  const std::string home = Variable("HOME");
  return home.starts_with("/") ? home + "/.local/state/muster/coordinator" : "";
}

std::string DefaultSocket() {
  if (std::string given = FirstOf(Variable("RUNTIME_DIRECTORY")); !given.empty()) {
    return given + "/coordinator.sock";
  }
  if (::geteuid() == 0) return "/run/muster/coordinator.sock";
  const std::string runtime = Variable("XDG_RUNTIME_DIR");
  return runtime.starts_with("/") ? runtime + "/muster/coordinator.sock" : "";
}

void Note(NoteLevel level, std::string_view text) {
  const auto severity = level == NoteLevel::kError  ? spdlog::level::err
                        : level == NoteLevel::kWarn ? spdlog::level::warn
                                                    : spdlog::level::info;
  spdlog::log(severity, "{}", text);
}

}  // namespace

ServiceOptions DefaultServiceOptions() {
  return {.state_directory = DefaultStateDirectory(), .socket = DefaultSocket(), .listen = ":7443"};
}

std::string TrustDirectoryOf(const std::string& state_directory) {
  return state_directory + "/trust";
}

struct Service::Parts {
  UniqueFd lock;
  std::string network_address;
  std::unique_ptr<Coordinator> coordinator;
};

absl::StatusOr<std::unique_ptr<Service>> Service::Start(ServiceOptions options) {
  auto parts = std::make_unique<Parts>();
  absl::Status status = CheckOwnerOf(options.state_directory);
  if (status.ok()) status = MakeStateDirectory(options.state_directory);
  if (!status.ok()) return status;
  absl::StatusOr<UniqueFd> lock =
      LockStateDirectory(options.state_directory, "coordinator", kLockPatience);
  if (!lock.ok()) return lock.status();
  parts->lock = *std::move(lock);

  const std::string folder = options.socket.substr(0, options.socket.rfind('/'));
  const bool made = !folder.empty() && ::access(folder.c_str(), F_OK) != 0;
  if (!folder.empty()) status = MakeStateDirectory(folder);
  if (!status.ok()) return status;
  // The socket says who may connect; a folder of our own lets people come that far.
  if (made && options.socket_group.has_value()) (void)::chmod(folder.c_str(), 0755);
  std::optional<SocketGroup> group;
  if (options.socket_group.has_value()) group = SocketGroup{.gid = *options.socket_group};
  absl::StatusOr<std::unique_ptr<AcceptLoop>> listener =
      AcceptLoop::Listen(options.socket, std::move(group));
  if (!listener.ok()) return listener.status();

  CoordinatorConfig config;
  const std::string trust = TrustDirectoryOf(options.state_directory);
  if (!options.listen.empty() && ::access(trust.c_str(), F_OK) == 0) {
    absl::StatusOr<std::unique_ptr<Network>> network =
        Network::Open({.trust_directory = trust,
                       .listen = options.listen,
                       .advertised = std::move(options.advertised)});
    if (!network.ok()) return network.status();
    parts->network_address = (*network)->address();
    config.network = *std::move(network);
  }
  config.directory = options.state_directory;
  config.listener = *std::move(listener);
  config.core.note = &Note;
  config.core.user_limits = options.user_limits;
  config.core.probe_rendezvous = options.probe_rendezvous;
  config.core.telemetry_interval = options.telemetry_interval;
  config.on_trouble = [](const std::string& message) { spdlog::error("{}", message); };
  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator = Coordinator::Start(std::move(config));
  if (!coordinator.ok()) return coordinator.status();
  parts->coordinator = *std::move(coordinator);
  return std::unique_ptr<Service>(new Service(std::move(parts)));
}

Service::Service(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Service::~Service() { Stop(); }

const std::string& Service::network_address() const { return parts_->network_address; }

EventLoop& Service::loop() { return parts_->coordinator->loop(); }

std::string Service::Status() const {
  const CoordinatorCore::Totals totals = parts_->coordinator->core().totals();
  std::string text = fmt::format("{} of {} nodes in contact, {} job{}", totals.nodes_alive,
                                 totals.nodes, totals.jobs, totals.jobs == 1 ? "" : "s");
  if (totals.jobs_waiting > 0) text += fmt::format(" ({} waiting for nodes)", totals.jobs_waiting);
  return text;
}

void Service::Stop() { parts_->coordinator->Stop(); }

}  // namespace muster
