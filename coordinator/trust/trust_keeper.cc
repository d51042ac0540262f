#include "coordinator/trust/trust_keeper.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/base/annotate.h"
#include "common/base/utc.h"
#include "common/log/log.h"
#include "coordinator/trust/ca_rotation.h"

namespace muster {
namespace {

constexpr size_t kMostNames = 20;

}  // namespace

absl::Status TrustKeeper::Reload(WallTime now) {
  absl::StatusOr<Trust> trust = LoadTrust(directory_, now);
  if (!trust.ok()) return trust.status();
  trust_.Set(*std::move(trust));
  return absl::OkStatus();
}

absl::Status TrustKeeper::Tell(std::string_view decision, std::string detail, const Actor& actor) {
  return audit_.Append({.event = "ca-rotate",
                        .decision = std::string(decision),
                        .who = actor.name,
                        .serial = actor.serial,
                        .source = actor.source,
                        .detail = std::move(detail)},
                       clock_.WallNow());
}

std::chrono::milliseconds TrustKeeper::Interval() const {
  constexpr std::chrono::milliseconds kLeast{1000};
  constexpr std::chrono::milliseconds kMost{30'000};
  return std::clamp<std::chrono::milliseconds>(trust_.Get()->certificate_life / 20, kLeast, kMost);
}

absl::Status TrustKeeper::Step() {
  MutexLock lock(mutex_);
  const WallTime now = clock_.WallNow();
  const absl::StatusOr<bool> coordinator = RenewCoordinatorWhenDue(directory_, now);
  if (!coordinator.ok()) return coordinator.status();
  if (*coordinator) {
    const absl::Status loaded = Reload(now);
    if (!loaded.ok()) return loaded;
    spdlog::info("the certificate of the coordinator was renewed serial={} until={}",
                 trust_.Get()->coordinator.serial(),
                 FormatUtc(trust_.Get()->coordinator.not_after()));
  }
  const absl::Status advanced = Advance(now);
  if (!advanced.ok()) return advanced;
  const absl::StatusOr<bool> admin = RenewAdminWhenDue(directory_, *trust_.Get(), store_, now);
  if (!admin.ok()) return admin.status();
  if (*admin) spdlog::info("the certificate of the admin was renewed");
  return absl::OkStatus();
}

absl::Status TrustKeeper::Advance(WallTime now) {
  const std::shared_ptr<const Trust> trust = trust_.Get();
  if (trust->phase == RotationPhase::kSteady) return absl::OkStatus();
  const absl::StatusOr<std::vector<Member>> awaited = AwaitedMembers(*trust, store_, now);
  if (!awaited.ok()) return awaited.status();
  if (!awaited->empty()) return absl::OkStatus();
  const bool issue = trust->phase == RotationPhase::kTrustBoth;
  const char* step = issue ? "the new authority signs" : "the former authority is dropped";
  absl::Status done = Tell("allowed", step, {.name = "coordinator"});
  if (done.ok()) done = issue ? IssueFromNew(directory_, now) : DropFormer(directory_, now);
  if (done.ok()) done = Reload(now);
  if (done.ok()) spdlog::info("authority changes step={}", LogQuoted(step));
  return done;
}

absl::Status TrustKeeper::BeginRotation(const Actor& actor) {
  MutexLock lock(mutex_);
  const WallTime now = clock_.WallNow();
  const std::shared_ptr<const Trust> trust = trust_.Get();
  if (trust->phase != RotationPhase::kSteady) {
    const absl::StatusOr<std::vector<Member>> awaited = AwaitedMembers(*trust, store_, now);
    if (!awaited.ok()) return awaited.status();
    return absl::FailedPreconditionError(fmt::format(
        "a change of the authority is under way{}",
        awaited->empty()
            ? std::string(" (it goes on within a minute)")
            : fmt::format(" and waits for {} (start them, or revoke those that are gone)",
                          NamesOf(*awaited))));
  }
  absl::Status done = Tell("allowed", "a new authority is to be trusted", actor);
  if (!done.ok()) {
    return absl::UnavailableError(fmt::format(
        "nothing was done, because it could not be written to the audit log: {}", MessageOf(done)));
  }
  done = muster::BeginRotation(directory_, now);
  if (done.ok()) done = Reload(now);
  if (done.ok()) spdlog::info("authority changes step=\"both are trusted\"");
  return done;
}

absl::StatusOr<std::vector<Member>> TrustKeeper::Awaited() {
  return AwaitedMembers(*trust_.Get(), store_, clock_.WallNow());
}

std::string NamesOf(const std::vector<Member>& members) {
  std::vector<std::string> names;
  for (const Member& member : members) {
    if (names.size() == kMostNames) {
      names.push_back(fmt::format("and {} more", members.size() - kMostNames));
      break;
    }
    names.push_back(fmt::format("{} {} (its certificate ends {})", IdentityKindName(member.kind),
                                member.name, FormatUtc(member.not_after)));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace muster
