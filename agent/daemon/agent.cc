#include "agent/daemon/agent.h"

#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "agent/binding/placing_inspector.h"
#include "agent/daemon/join.h"
#include "agent/node/container_host.h"
#include "agent/node/coordinator_socket.h"
#include "agent/node/facts.h"
#include "agent/node/habana_profile.h"
#include "agent/supervise/cgroup.h"
#include "common/base/annotate.h"
#include "common/base/signal_names.h"
#include "common/io/account.h"
#include "common/rpc/member_channel.h"

namespace muster {
namespace {

using std::chrono::milliseconds;

// An agent of one job ends this long after its coordinator, when nothing of it runs.
constexpr std::chrono::seconds kEphemeralAfter{6};
// Time for ranks when an ephemeral agent is told to end, and for killing what is left then.
constexpr milliseconds kLeaveGrace{4000};
constexpr milliseconds kLeaveMargin{3000};
// Time for the last events to reach the coordinator.
constexpr milliseconds kFlushLimit{500};
constexpr milliseconds kFlushStep{10};
// How long the start may wait for a name server.
constexpr milliseconds kResolverLimit{1000};

uint64_t RandomNumber() {
  uint64_t number = 0;
  // Early in the boot of a machine the pool may be empty; then the clock has to do.
  if (::getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number)) {
    number = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return number;
}

// FNV-1a: the same in every version, so that an agent finds the containers of the one before.
uint64_t PathHash(std::string_view path) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : path) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> Agent::Create(const AgentConfig& config) {
  auto agent = std::unique_ptr<Agent>(new Agent(config));
  const absl::Status status = agent->Start();
  if (!status.ok()) return status;
  return agent;
}

Agent::Agent(const AgentConfig& config)
    : config_(config),
      attempts_directory_(config.state_directory + "/attempts"),
      own_user_(AccountName(::geteuid())),
      store_(config.state_directory + "/journal") {
  if (!config.ephemeral) {
    audit_ = std::make_unique<AuditTrail>(AuditPathOf(config.state_directory), clock_);
  }
}

Agent::~Agent() {
  // Before the launcher lets go of shims that wait for their scopes.
  if (scopes_) scopes_->End();
}

absl::Status Agent::Start() {
  const absl::StatusOr<std::string> boot_id = ReadBootId();
  if (!boot_id.ok()) return boot_id.status();
  const std::string cgroup = FindWritableCgroup();
  if (!cgroup.empty() && !config_.ephemeral && !config_.job_slice.empty() &&
      SystemdScopes::Wanted(config_.environ)) {
    scopes_ = std::make_unique<SystemdScopes>(loop_, config_.job_slice, FindCgroupRoot());
  }

  DeviceOptions devices;
  devices.sysroot = config_.sysroot;
  devices.environ = config_.environ;
  // This very program, also when its file was replaced.
  devices.own_program = "/proc/self/exe";
  cards_ = std::make_unique<CardReader>(loop_, std::move(devices), config_.devices);

  absl::StatusOr<std::unique_ptr<ShimLauncher>> launcher =
      ShimLauncher::Create(loop_, {.node_id = config_.node_id,
                                   .boot_id = *boot_id,
                                   .attempts_directory = attempts_directory_,
                                   .shim_binary = config_.shim_binary,
                                   .environ = config_.environ,
                                   .lease_directory = config_.lease_directory,
                                   .cgroup_parent = cgroup,
                                   .scopes = scopes_.get(),
                                   .cards = cards_->ShimCards(),
                                   .cards_are_simulated = !config_.sysroot.empty(),
                                   .power_loss_ends_all = config_.ephemeral,
                                   .rank_oom_score_adj = config_.rank_oom_score_adj});
  if (!launcher.ok()) return launcher.status();
  launcher_ = *std::move(launcher);

  launcher_->SetLogsGrew([this](const AttemptId& attempt, uint32_t rank, uint64_t fixed_bytes) {
    spool_->SetFixed({attempt, rank}, fixed_bytes);
    shipper_->OnSpoolGrew({attempt, rank});
  });
  spool_ = std::make_unique<FileSpool>(attempts_directory_);
  shipper_ = std::make_unique<LogShipper>(
      loop_, config_.node_id, *spool_,
      LogShipper::Callbacks{
          .committed =
              [this](const LogFileId& file, uint64_t bytes) {
                launcher_->Committed(file.attempt, file.rank, bytes);
              },
          .complete =
              [](const LogFileId& file) {
                spdlog::debug("output stored job={} attempt={} rank={}", file.attempt.job.value(),
                              file.attempt.attempt, file.rank);
              },
          .failed =
              [](const LogFileId& file, const absl::Status& status) {
                spdlog::error("output not shipped job={} attempt={} rank={} error=\"{}\"",
                              file.attempt.job.value(), file.attempt.attempt, file.rank,
                              MessageOf(status));
              },
          .work = [this](bool work) { logs_->OnWork(work); }});

  AgentOptions options;
  options.node_id = config_.node_id;
  options.agent_instance_id = fmt::format("{:016x}", RandomNumber());
  options.boot_id = *boot_id;
  if (!cgroup.empty()) options.capabilities.push_back("cgroup-kill");
  options.capabilities.push_back("rendezvous-probe");
  options.facts =
      CollectFacts({.slots = config_.slots,
                    .addresses = config_.addresses,
                    .resolver_limit = config_.ephemeral ? milliseconds(0) : kResolverLimit});
  facts_ = options.facts;
  cards_->AddTo(options.facts);
  options.set_telemetry_interval = [this](Duration interval) { cards_->SetInterval(interval); };
  options.take_readings = [this] { return cards_->TakeReadings(); };
  options.environ = config_.environ;
  options.home = config_.home;
  options.state = fmt::format("{:016x}", PathHash(attempts_directory_));
  options.uid = ::geteuid();
  options.gid = ::getegid();
  options.read_profile = [this] { return ReadHabanaProfile(config_.sysroot); };
  options.fake_unkillable_rank = config_.fake_unkillable_rank;
  if (config_.ephemeral) options.ephemeral_after = kEphemeralAfter;
  options.pending_log_bytes = [this] { return shipper_->pending_bytes(); };
  users_ = std::make_unique<SystemUserGate>(
      loop_, UserGateOptions{
                 .own_name = own_user_,
                 .is_root = ::geteuid() == 0,
                 .coordinator_socket = SocketPathOf(config_.coordinator),
                 .place_trust = config_.ephemeral ? PlaceTrust::kDirectory : PlaceTrust::kWholePath,
                 .allow_file = config_.allow_file,
                 .allowed = config_.allowed_users});
  probes_ = std::make_unique<ProbeRunner>(loop_, config_.shim_binary, config_.environ);
  // A simulated node has no service of its own, and all agents of one job share the machine's.
  const bool has_usual = config_.sysroot.empty() && !config_.ephemeral;
  if (std::string endpoint = Ec2EndpointOf(config_.environ, has_usual ? kUsualEc2Endpoint : "");
      !endpoint.empty()) {
    ec2_ = std::make_unique<Ec2Metadata>(loop_, std::move(endpoint));
  }
  engines_ = std::make_unique<EngineProbe>(*probes_, config_.environ);
  options.look_for_engines = [this](const v1::LaunchSpec& launch, const RunAs& user,
                                    std::function<void(ContainerHost)> done) {
    engines_->Ask(LookForEngines(config_.environ, config_.sysroot), launch, user, std::move(done));
  };
  node_checks_ =
      std::make_unique<NodeChecks>(loop_, *probes_,
                                   NodeChecksOptions{.sysroot = config_.sysroot,
                                                     .state_directory = config_.state_directory,
                                                     .own_machine = !config_.ephemeral,
                                                     .ec2 = ec2_.get()});
  card_inspector_ = std::make_unique<CardInspector>(loop_, *cards_);
  placing_ = std::make_unique<PlacingInspector>(
      loop_, [this] { return cards_->inventory(); }, config_.sysroot);
  inspector_ = std::make_unique<CompositeInspector>(
      loop_,
      std::vector<NodeInspector*>{node_checks_.get(), card_inspector_.get(), placing_.get()});
  options.inspector = inspector_.get();
  bandwidth_ = std::make_unique<BandwidthTest>(loop_);
  options.network = bandwidth_.get();
  network_ = std::make_unique<SystemRendezvous>(
      loop_, SystemRendezvous::Options{.addresses = {options.facts.addresses().begin(),
                                                     options.facts.addresses().end()}});
  core_ = std::make_unique<AgentCore>(loop_, store_, *launcher_, *users_, *network_,
                                      static_cast<AgentObserver&>(*this), std::move(options));

  const Dialer dialer =
      IsUnixTarget(config_.coordinator)
          ? DialerTo(config_.coordinator)
          : MemberDialer(CredentialsDirectory(MemberDirectoryOf(config_.state_directory)),
                         config_.coordinator, [met = met_](const TlsPeer& peer) {
                           met->Set(peer.uris, peer.certificate);
                         });
  logs_ = std::make_unique<LogClient>(loop_, dialer, RandomNumber(), *shipper_);
  session_ = std::make_unique<SessionClient>(
      loop_, dialer, RandomNumber(),
      SessionClient::Handlers{
          .connected = [this](AgentSessionSink* sink) { core_->OnConnected(sink); },
          .message = [this](const v1::CoordinatorMessage& message) { core_->OnMessage(message); },
          .disconnected =
              [this](const absl::Status& status) {
                disconnected_ = MessageOf(status);
                core_->OnDisconnected(status);
              }});
  const absl::Status started = core_->Start();
  if (!started.ok()) return started;
  session_->Start();
  // The agent of one job ends before anything changes.
  if (!config_.ephemeral) cards_->WatchForChanges([this] { OnCardsChanged(); });
  if (!IsUnixTarget(config_.coordinator)) {
    certificate_ = std::make_unique<CertificateKeeper>(
        loop_, CredentialsDirectory(MemberDirectoryOf(config_.state_directory)),
        config_.coordinator, RandomNumber(), [this] { session_->Redial(); },
        [this](const CertificateLook& look) {
          if (audit_) audit_->Record(RenewalEvent(look, config_.node_id.value()));
        });
    certificate_->Start();
  }
  return absl::OkStatus();
}

// Facts are told when a session begins.
void Agent::OnCardsChanged() {
  v1::NodeFacts facts = facts_;
  cards_->AddTo(facts);
  core_->SetFacts(std::move(facts));
  launcher_->SetCards(cards_->ShimCards());
  session_->Redial();
}

void Agent::Leave(int signal) {
  if (!config_.ephemeral) {
    loop_.Stop();
    return;
  }
  StopRanks(leaving_ ? milliseconds(0) : kLeaveGrace,
            fmt::format("the agent of this node was told to leave by {}", SignalName(signal)));
}

void Agent::StopRanks(milliseconds grace, const std::string& reason) {
  leaving_ = true;
  launcher_->StopAll(grace, grace + kLeaveMargin, reason,
                     [this] { StopWhenTold(loop_.clock().Now() + kFlushLimit); });
}

// Ends the loop once the coordinator has every event, or at `deadline`.
void Agent::StopWhenTold(TimePoint deadline) {
  if (core_->state().events.empty() || loop_.clock().Now() >= deadline) {
    loop_.Stop();
    return;
  }
  loop_.PostAfter(kFlushStep, [this, deadline] { StopWhenTold(deadline); });
}

void Agent::OnNotice(Severity severity, const std::string& line) {
  const auto level = severity == Severity::kError     ? spdlog::level::err
                     : severity == Severity::kWarning ? spdlog::level::warn
                                                      : spdlog::level::info;
  spdlog::log(level, "{}", line);
}

void Agent::OnSession(const std::string& session_id) {
  in_session_ = true;
  logs_->OnSession(session_id);
  if (certificate_) certificate_->OnSession();
}

void Agent::OnSessionLost() {
  in_session_ = false;
  logs_->OnSessionLost();
  if (certificate_) certificate_->OnSessionLost();
}

std::string Agent::Status() const {
  uint32_t ranks = 0;
  for (const auto& [id, attempt] : core_->state().attempts) ranks += RunningRanks(attempt);
  const std::string contact = in_session_ ? "in contact with the coordinator"
                              : disconnected_.empty()
                                  ? "no contact with the coordinator yet"
                                  : fmt::format("no coordinator: {}", disconnected_);
  return fmt::format("{}: {} rank{} running, {}", config_.node_id.value(), ranks,
                     ranks == 1 ? "" : "s", contact);
}

void Agent::OnAttempt(const AttemptId& id, const std::vector<uint32_t>& ranks) {
  shipper_->AddFiles(id, ranks);
}

void Agent::OnLogClosed(const AttemptId& id, uint32_t rank, uint64_t size) {
  shipper_->OnClosed({id, rank}, size);
}

void Agent::OnForgotten(const AttemptId& id) { shipper_->RemoveAttempt(id); }

void Agent::OnDeed(const Deed& deed) {
  if (audit_) audit_->Record(EventOf(deed, Coordinator(), own_user_));
}

OrderedBy Agent::Coordinator() const {
  if (!IsUnixTarget(config_.coordinator)) return met_->Get();
  struct stat info = {};
  if (::stat(SocketPathOf(config_.coordinator).c_str(), &info) != 0) {
    return {config_.coordinator, ""};
  }
  return {fmt::format("{}, of uid {}", config_.coordinator, info.st_uid), ""};
}

void Agent::OnAbandoned() {
  spdlog::info("the coordinator is gone, leaving");
  loop_.Post([this] { StopRanks(milliseconds(0), "the coordinator is gone"); });
}

}  // namespace muster
