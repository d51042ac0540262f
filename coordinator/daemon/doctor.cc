#include "coordinator/daemon/doctor.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/clock.h"
#include "common/base/utc.h"
#include "common/base/version.h"
#include "common/crypto/join_token.h"
#include "common/doctor/audit_check.h"
#include "common/doctor/machine_checks.h"
#include "common/io/unique_fd.h"
#include "common/trust/server_chain.h"
#include "common/trust/tls_dial.h"
#include "coordinator/rpc/network_listener.h"
#include "coordinator/store/directory_lock.h"
#include "coordinator/store/sqlite_store.h"
#include "coordinator/trust/ca_rotation.h"
#include "coordinator/trust/trust_directory.h"
#include "coordinator/trust/trust_keeper.h"
#include "coordinator/trust/trust_store.h"

namespace muster {
namespace {

constexpr uint64_t kEnoughBytes = uint64_t{4} << 30;
constexpr uint64_t kEnoughFiles = 4096;
constexpr std::chrono::hours kCaEndsSoon{24 * 365};
constexpr std::chrono::milliseconds kProbeLimit{3000};

bool IsServed(const std::string& socket_path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_path.empty() || socket_path.size() >= sizeof address.sun_path) return false;
  socket_path.copy(address.sun_path, socket_path.size());
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd &&
         ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

Finding CheckStore(const std::string& directory, bool running) {
  const std::string path = directory + "/store.db";
  if (running) return Good("store", "the coordinator that runs has it open, and has checked it");
  if (::access(path.c_str(), F_OK) != 0) return Good("store", "there is none yet");
  const absl::StatusOr<StoredState> state = SqliteStore::Peek(path);
  if (!state.ok()) return Failed("store", state.status());
  return Good("store", fmt::format("{} is intact", path));
}

Finding CheckAuthority(const Trust& trust, WallTime now) {
  const WallTime end = trust.ca().not_after();
  const std::string text = fmt::format("good until {}", FormatUtc(end));
  if (end - now < kCaEndsSoon) return Doubtful("authority", text, "coordinator ca rotate");
  return Good("authority", text);
}

Finding CheckCoordinatorCertificate(const Trust& trust, WallTime now) {
  Finding finding = CheckDates("certificate", trust.coordinator, now);
  // It renews with a third of the life left.
  if (finding.verdict == Verdict::kWarn) {
    finding.fix = "coordinator serve renews it; if it runs, its log says why it did not";
  }
  return finding;
}

void AddMembers(const std::string& directory, const Trust& trust, WallTime now,
                Findings& findings) {
  const auto store = TrustStore::Open(TrustDatabasePath(directory));
  if (!store.ok()) {
    findings.push_back(Failed("members", store.status()));
    return;
  }
  const absl::StatusOr<std::vector<Member>> members = (*store)->ListMembers();
  if (!members.ok()) {
    findings.push_back(Failed("members", members.status()));
    return;
  }
  std::vector<Member> ended;
  for (const Member& member : *members) {
    if (!member.revoked && member.not_after <= now) ended.push_back(member);
  }
  const std::string text = fmt::format("{} are in the cluster", members->size());
  findings.push_back(ended.empty() ? Good("members", text)
                                   : Doubtful("members",
                                              fmt::format("{}; certificates have ended of: {}",
                                                          text, NamesOf(ended)),
                                              "start their agents, or revoke those that are gone"));
  if (trust.phase == RotationPhase::kSteady) return;
  const absl::StatusOr<std::vector<Member>> awaited = AwaitedMembers(trust, **store, now);
  if (!awaited.ok()) {
    findings.push_back(Failed("rotation", awaited.status()));
  } else {
    findings.push_back(
        Doubtful("rotation",
                 awaited->empty()
                     ? std::string("a change of the authority goes on while the coordinator runs")
                     : fmt::format("a change of the authority waits for {}", NamesOf(*awaited))));
  }
}

Finding CheckHosts(const std::string& directory) {
  std::vector<std::string> lost;
  const std::vector<std::string> hosts = HostsOf(directory);
  for (const std::string& host : hosts) {
    addrinfo* raw = nullptr;
    if (::getaddrinfo(host.c_str(), nullptr, nullptr, &raw) != 0) {
      lost.push_back(host);
    } else {
      ::freeaddrinfo(raw);
    }
  }
  if (hosts.empty()) {
    return Doubtful("hosts", "members are told no address of this machine", "serve --advertise");
  }
  if (lost.empty()) return Good("hosts", fmt::format("{}", fmt::join(hosts, ", ")));
  return Doubtful("hosts", fmt::format("not found by name here: {}", fmt::join(lost, ", ")),
                  "nodes must find them; or say serve --advertise HOST:PORT");
}

// Who answers on the port: somebody who owns the cluster's key, or another program.
Finding CheckPort(const std::string& listen, const Trust& trust, bool running, WallTime now) {
  const auto listener = NetworkListener::Listen(listen, {});
  if (listener.ok()) {
    const std::string text = fmt::format("nobody listens on {}", listen);
    return running ? Bad("port", text,
                         "the coordinator that runs listens elsewhere, or was started before "
                         "`init`: start it again")
                   : Good("port", fmt::format("{} is free", listen));
  }
  if (absl::IsInvalidArgument(listener.status())) return Failed("port", listener.status());
  const std::string address = listen.starts_with(":") ? "127.0.0.1" + listen : listen;
  absl::StatusOr<TlsDial> dial = TlsDial::Connect(address, "TLS with", kProbeLimit);
  if (!dial.ok()) return Failed("port", dial.status());
  const absl::StatusOr<TlsContext> context = TlsContext::ForClient(kJoinAlpn);
  if (!context.ok()) return Failed("port", context.status());
  const absl::Status shaken = dial->Handshake(*context, [&](const std::vector<Certificate>& chain) {
    return VerifyCoordinatorChain(chain, trust.ca_bundle, now).status();
  });
  if (shaken.ok()) return Good("port", fmt::format("{} is served by this cluster", listen));
  return Bad("port", fmt::format("{} is in use by another program: {}", listen, MessageOf(shaken)),
             "end it, or choose another port with serve --listen");
}

void AddCluster(const ServiceOptions& options, bool running, Findings& findings) {
  const std::string directory = TrustDirectoryOf(options.state_directory);
  if (::access(directory.c_str(), F_OK) != 0) {
    findings.push_back(
        Good("cluster", "there is none: this machine only (coordinator init makes one)"));
    return;
  }
  const WallTime now = SystemClock().WallNow();
  absl::StatusOr<Trust> trust = LoadTrust(directory, now);
  if (!trust.ok()) {
    findings.push_back(Failed("cluster", trust.status()));
  } else {
    findings.push_back(Good("cluster", trust->cluster_id));
    findings.push_back(CheckAuthority(*trust, now));
    findings.push_back(CheckCoordinatorCertificate(*trust, now));
    AddMembers(directory, *trust, now, findings);
    findings.push_back(CheckHosts(directory));
    if (!options.listen.empty()) {
      findings.push_back(CheckPort(options.listen, *trust, running, now));
    }
  }
  findings.push_back(CheckAudit(directory + "/audit.jsonl"));
}

}  // namespace

Findings ExamineCoordinator(const ServiceOptions& options) {
  Findings findings;
  findings.push_back(Good("program", fmt::format("coordinator {}", kVersion)));
  findings.push_back(CheckOwnDirectory("state", options.state_directory));
  if (findings.back().verdict == Verdict::kFail) return findings;
  const bool running = !DirectoryLock::IsFree(options.state_directory);
  if (!running) {
    findings.push_back(
        Doubtful("service", "no coordinator runs on this state directory", "coordinator serve"));
  } else if (IsServed(options.socket)) {
    findings.push_back(Good("service", fmt::format("a coordinator serves {}", options.socket)));
  } else {
    findings.push_back(Bad("service",
                           fmt::format("a coordinator runs here, but does not answer on {}",
                                       options.socket.empty() ? "a socket" : options.socket),
                           "is it another --socket? Else look at its log"));
  }
  findings.push_back(CheckDiskSpace(options.state_directory, kEnoughBytes));
  findings.push_back(CheckOpenFiles(kEnoughFiles));
  findings.push_back(CheckStore(options.state_directory, running));
  AddCluster(options, running, findings);
  return findings;
}

}  // namespace muster
