#include "agent/daemon/join.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <system_error>
#include <utility>

#include "agent/node/facts.h"
#include "common/audit/audit_log.h"
#include "common/base/annotate.h"
#include "common/base/clock.h"
#include "common/base/signal_names.h"
#include "common/base/version.h"
#include "common/crypto/encoding.h"
#include "common/io/atomic_file.h"
#include "common/io/state_lock.h"
#include "common/io/state_owner.h"
#include "common/trust/credentials.h"
#include "common/trust/join_client.h"
#include "common/trust/token_file.h"

namespace muster {
namespace {

constexpr int kFailed = 1;
constexpr int kBadUsage = 2;

int Fail(const absl::Status& status) {
  const std::string text(MessageOf(status));
  std::fprintf(stderr, "agent: %s\n", text.c_str());
  return absl::IsInvalidArgument(status) ? kBadUsage : kFailed;
}

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The node has joined, whether this can be written or not.
void RecordJoin(const JoinConfig& config, const Credentials& credentials) {
  const SystemClock clock;
  const absl::StatusOr<std::unique_ptr<AuditLog>> audit =
      AuditLog::Open(AuditPathOf(config.state_directory));
  AuditEvent event{.event = "join",
                   .decision = "allowed",
                   .who = ToUri(credentials.identity),
                   .serial = credentials.certificate.serial(),
                   .source = config.address};
  std::vector<std::string> digests;
  for (const Certificate& ca : credentials.ca_bundle) {
    digests.push_back(HexEncode(ca.SpkiSha256()));
  }
  event.more.emplace_back("new_authorities", fmt::format("{}", fmt::join(digests, " ")));
  const absl::Status told = audit.ok() ? (*audit)->Append(event, clock.WallNow()) : audit.status();
  if (told.ok()) return;
  const std::string text(MessageOf(told));
  std::fprintf(stderr, "agent: the audit log cannot be written: %s\n", text.c_str());
}

// `accept` may refuse what the coordinator gave; then everything stays as it was, but for the
// token.
using Accept = std::function<absl::Status(const Identity&)>;

absl::StatusOr<Credentials> JoinCluster(const JoinConfig& config, const Accept& accept = nullptr) {
  const absl::StatusOr<std::string> token = config.token_file.empty()
                                                ? absl::StatusOr<std::string>(config.token)
                                                : ReadTokenFile(config.token_file);
  if (!token.ok()) return token.status();
  const absl::Status made = MakeStateDirectory(config.state_directory);
  if (!made.ok()) return made;
  const CredentialsDirectory directory(MemberDirectoryOf(config.state_directory));
  const absl::StatusOr<PrivateKey> key = directory.PendingKey();
  if (!key.ok()) return key.status();
  absl::StatusOr<Credentials> credentials = Join({.address = config.address,
                                                  .token = *token,
                                                  .name = config.node_id.value(),
                                                  .machine_id = FirstLine("/etc/machine-id"),
                                                  .boot_id = ReadBootId().value_or(""),
                                                  .version = std::string(kVersion),
                                                  .key = *key},
                                                 SystemClock());
  if (!credentials.ok()) return credentials;
  const absl::Status accepted = accept ? accept(credentials->identity) : absl::OkStatus();
  if (!accepted.ok()) return accepted;
  const absl::Status installed = directory.Install(*credentials);
  if (!installed.ok()) return installed;
  RecordJoin(config, *credentials);
  return credentials;
}

// What a journal tells of concerns the cluster that it was written for: for another coordinator it
// is nonsense, and it would refuse the node because of it. Puts away that of another membership.
absl::Status MatchJournal(const std::string& state_directory, const Identity& identity) {
  const std::string note = state_directory + "/journal.member";
  const std::string journal = state_directory + "/journal";
  const std::string member = ToUri(identity);
  std::string former;
  const std::error_code read = ReadFile(note, former);
  if (!read && former == member) return absl::OkStatus();
  if (read && read != std::errc::no_such_file_or_directory) {
    return absl::UnavailableError(fmt::format("cannot read {}: {}", note, read.message()));
  }
  if (!read) {
    std::error_code error;
    std::filesystem::rename(journal, journal + ".former", error);
    if (error && error != std::errc::no_such_file_or_directory) {
      return absl::UnavailableError(fmt::format("cannot put away {}, which is that of {}: {}",
                                                journal, former, error.message()));
    }
    std::fprintf(stderr, "agent: this node was %s and is %s now: its journal is begun anew\n",
                 former.c_str(), member.c_str());
  }
  const std::error_code written =
      WriteFileAtomically(note, member, S_IRUSR | S_IWUSR, Durability::kPowerLoss);
  if (!written) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("cannot write {}: {}", note, written.message()));
}

}  // namespace

std::string MemberDirectoryOf(const std::string& state_directory) {
  return state_directory + "/trust";
}

std::string AuditPathOf(const std::string& state_directory) {
  return state_directory + "/audit.jsonl";
}

absl::Status TakeMembership(const std::string& state_directory, NodeId& node_id) {
  const absl::StatusOr<Credentials> credentials =
      CredentialsDirectory(MemberDirectoryOf(state_directory)).Load();
  if (absl::IsNotFound(credentials.status())) {
    return absl::FailedPreconditionError(fmt::format(
        "this node has not joined a cluster ({} has no certificate): agent join HOST:PORT TOKEN, "
        "with a token of `coordinator token create`",
        MemberDirectoryOf(state_directory)));
  }
  if (!credentials.ok()) return credentials.status();
  // A certificate that has ended does not matter here: the agent comes back with it by itself, or
  // says why not.
  const std::string& name = credentials->identity.name;
  if (!node_id.empty() && node_id.value() != name) {
    return absl::FailedPreconditionError(
        fmt::format("this node has joined as {}, and cannot be {}", name, node_id.value()));
  }
  node_id = NodeId(name);
  return MatchJournal(state_directory, credentials->identity);
}

absl::Status JoinUnlessMember(const JoinConfig& config, const sigset_t& ending,
                              std::optional<std::chrono::seconds> patience) {
  constexpr timespec kPause = {1, 0};
  const auto began = std::chrono::steady_clock::now();
  const CredentialsDirectory directory(MemberDirectoryOf(config.state_directory));
  bool told = false;
  while (absl::IsNotFound(directory.Load().status())) {
    const absl::Status joined = JoinCluster(config).status();
    if (joined.ok()) return absl::OkStatus();
    if (!absl::IsUnavailable(joined) && !absl::IsDeadlineExceeded(joined)) return joined;
    if (patience && std::chrono::steady_clock::now() - began >= *patience) return joined;
    if (!std::exchange(told, true)) {
      const std::string text(MessageOf(joined));
      std::fprintf(stderr, "agent: not joined yet, trying again: %s\n", text.c_str());
    }
    // paces: a coordinator that is not there yet.
    const int signal = ::sigtimedwait(&ending, nullptr, &kPause);
    if (signal > 0) {
      return absl::CancelledError(
          fmt::format("told to leave by {} before it could join", SignalName(signal)));
    }
  }
  return absl::OkStatus();
}

int RunJoin(const JoinConfig& config) {
  JoinConfig with_token = config;
  if (!config.token_file.empty()) {
    // The token's file may be root's.
    absl::StatusOr<std::string> token = ReadTokenFile(config.token_file);
    if (!token.ok()) return Fail(token.status());
    with_token.token = *std::move(token);
    with_token.token_file.clear();
  }
  const absl::Status owner = BecomeOwnerOf(config.state_directory);
  if (!owner.ok()) return Fail(owner);
  const absl::Status made = MakeStateDirectory(config.state_directory);
  if (!made.ok()) return Fail(made);
  const absl::StatusOr<Credentials> former =
      CredentialsDirectory(MemberDirectoryOf(config.state_directory)).Load();
  const absl::StatusOr<UniqueFd> lock =
      LockStateDirectory(config.state_directory, "agent", std::chrono::milliseconds(0));
  if (!lock.ok() && !absl::IsFailedPrecondition(lock.status())) return Fail(lock.status());
  // An agent that runs can be given a new certificate, but not be made another node.
  const auto change_is_possible = [&](const std::string& cluster, const std::string& name) {
    if (lock.ok() || !former.ok()) return absl::OkStatus();
    const Identity& current = former->identity;
    if (name == current.name && cluster == current.cluster_id) return absl::OkStatus();
    return absl::FailedPreconditionError(fmt::format(
        "this node is {} of cluster {}, and its agent runs: stop the agent before the node becomes "
        "{} of cluster {}, or give another --state-dir",
        current.name, current.cluster_id, name, cluster));
  };
  if (former.ok()) {
    const absl::Status possible =
        change_is_possible(former->identity.cluster_id, config.node_id.value());
    if (!possible.ok()) return Fail(possible);
  }
  const absl::StatusOr<Credentials> credentials =
      JoinCluster(with_token, [&](const Identity& identity) {
        return change_is_possible(identity.cluster_id, identity.name);
      });
  if (!credentials.ok()) return Fail(credentials.status());
  const std::string text = fmt::format(
      "{} belongs to cluster {} now, coordinator {}\n"
      "next: agent run (or systemctl start muster-agent)\n",
      credentials->identity.name, credentials->identity.cluster_id,
      fmt::join(credentials->coordinators, ", "));
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace muster
