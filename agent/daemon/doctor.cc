#include "agent/daemon/doctor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "agent/daemon/join.h"
#include "agent/node/system_user_gate.h"
#include "agent/supervise/cgroup.h"
#include "common/base/annotate.h"
#include "common/base/clock.h"
#include "common/base/version.h"
#include "common/doctor/audit_check.h"
#include "common/doctor/coordinator_probe.h"
#include "common/doctor/machine_checks.h"
#include "common/io/unique_fd.h"
#include "common/rpc/channel.h"
#include "common/trust/credentials.h"

namespace muster {
namespace {

constexpr uint64_t kEnoughBytes = uint64_t{1} << 30;
constexpr uint64_t kEnoughFiles = 1024;

Finding CheckProgram(const AgentConfig& config) {
  const std::string& path = config.shim_binary;
  if (::access(path.c_str(), X_OK) == 0) {
    return Good("program", fmt::format("agent {}, {}", kVersion, path));
  }
  return Failed("program", ErrnoStatus(errno, path),
                "install muster-shim beside the agent, or set MUSTER_BIN_DIR");
}

Finding CheckCgroups() {
  const std::string directory = FindWritableCgroup();
  if (!directory.empty()) return Good("cgroup", directory);
  return Doubtful("cgroup",
                  "no control group (version 2) can be made here: what ranks leave behind is found "
                  "by other means, which can miss processes that hide",
                  "Delegate=yes in the service of the agent");
}

// Whether an agent runs on this state directory. Looks only.
Finding CheckRunning(const std::string& state_directory) {
  const UniqueFd lock(::open((state_directory + "/lock").c_str(), O_RDONLY | O_CLOEXEC));
  if (lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Good("service", "an agent runs here");
  }
  return Doubtful("service", "no agent runs on this state directory", "agent run");
}

Finding CheckSocket(const std::string& target) {
  const std::string path = target.substr(std::string("unix:").size());
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Bad("connect", fmt::format("{}: the path is too long for a socket", path));
  }
  path.copy(address.sun_path, path.size());
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Failed("connect", ErrnoStatus(errno, path),
                  "does the coordinator run, as this user or root?");
  }
  return Good("connect", fmt::format("a coordinator listens on {}", path));
}

// Who may run here, for an agent that is root.
Finding CheckAllowedUsers(const AgentConfig& config) {
  const absl::StatusOr<AllowList> list = ReadAllowList(config.allow_file);
  if (!list.ok()) return Failed("users", list.status());
  const size_t entries = list->users.size() + list->groups.size() + (list->everybody ? 1 : 0);
  if (entries + config.allowed_users.size() == 0) {
    return Doubtful("users", "no user may run jobs here",
                    fmt::format("write who may into {}", config.allow_file));
  }
  return Good("users", fmt::format("{} entries in {}, {} beside it", entries, config.allow_file,
                                   config.allowed_users.size()));
}

void AddMembership(const AgentConfig& config, Findings& findings) {
  const SystemClock clock;
  const CredentialsDirectory directory(MemberDirectoryOf(config.state_directory));
  const absl::StatusOr<Credentials> credentials = directory.Load();
  if (absl::IsNotFound(credentials.status())) {
    findings.push_back(
        Bad("certificate", "this node has not joined a cluster",
            "agent join HOST:PORT TOKEN, with a token of `coordinator token create`"));
    return;
  }
  if (!credentials.ok()) {
    findings.push_back(Failed("certificate", credentials.status()));
    return;
  }
  findings.push_back(Good("identity", fmt::format("{} of cluster {}", credentials->identity.name,
                                                  credentials->identity.cluster_id)));
  if (credentials->identity.kind != IdentityKind::kAgent) {
    findings.push_back(
        Bad("identity", fmt::format("the certificate is of the role {}, not of a node",
                                    IdentityKindName(credentials->identity.kind))));
  }
  findings.push_back(CheckDates("certificate", credentials->certificate, clock.WallNow()));
  std::vector<std::string> addresses = credentials->coordinators;
  if (!config.coordinator.empty()) addresses = {config.coordinator};
  if (addresses.empty()) {
    findings.push_back(
        Bad("name", "the credentials name no coordinator", "agent run --coordinator HOST:PORT"));
  }
  for (const std::string& address : addresses) {
    for (Finding& finding : ProbeCoordinator(*credentials, address, kVersion, clock)) {
      findings.push_back(std::move(finding));
    }
  }
}

}  // namespace

Findings ExamineNode(const AgentConfig& config) {
  Findings findings;
  findings.push_back(CheckProgram(config));
  findings.push_back(CheckOwnDirectory("state", config.state_directory));
  const bool there = findings.back().verdict != Verdict::kFail;
  if (there) {
    findings.push_back(CheckRunning(config.state_directory));
    findings.push_back(CheckDiskSpace(config.state_directory, kEnoughBytes));
    findings.push_back(CheckAudit(AuditPathOf(config.state_directory)));
  }
  findings.push_back(CheckOpenFiles(kEnoughFiles));
  findings.push_back(CheckLockedMemory());
  findings.push_back(CheckCgroups());
  if (IsUnixTarget(config.coordinator)) {
    findings.push_back(CheckSocket(config.coordinator));
  } else {
    if (::geteuid() == 0) findings.push_back(CheckAllowedUsers(config));
    if (there) AddMembership(config, findings);
  }
  return findings;
}

int RunDoctor(const AgentConfig& config, bool json) {
  const Findings findings = ExamineNode(config);
  const std::string text = json ? FindingsToJson(findings) : RenderFindings(findings);
  std::fputs(text.c_str(), stdout);
  return AllWork(findings) ? 0 : 1;
}

}  // namespace muster
