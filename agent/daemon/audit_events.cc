#include "agent/daemon/audit_events.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "common/base/utc.h"
#include "common/crypto/certificate.h"
#include "common/log/log.h"

namespace muster {
namespace {

const char* NameOf(Deed::Kind kind) {
  switch (kind) {
    case Deed::Kind::kLaunch:
      return "launch";
    case Deed::Kind::kRefuseLaunch:
      return "refuse-launch";
    case Deed::Kind::kStop:
      return "stop";
    case Deed::Kind::kSignal:
      return "signal";
    case Deed::Kind::kCheck:
      return "check";
  }
  return "";
}

}  // namespace

void MetCoordinator::Set(const std::vector<std::string>& uris, const std::string& certificate) {
  const absl::StatusOr<Certificate> read = Certificate::FromPem(certificate);
  MutexLock lock(mutex_);
  by_ = {uris.empty() ? "" : uris.front(), read.ok() ? read->serial() : ""};
}

OrderedBy MetCoordinator::Get() const {
  MutexLock lock(mutex_);
  return by_;
}

AuditEvent EventOf(const Deed& deed, const OrderedBy& by, const std::string& own_user) {
  AuditEvent event{.event = NameOf(deed.kind),
                   .decision = deed.kind == Deed::Kind::kRefuseLaunch ? "refused" : "allowed",
                   .who = deed.submitter,
                   .serial = by.serial,
                   .object = deed.kind == Deed::Kind::kCheck
                                 ? "node"
                                 : fmt::format("job {} attempt {}", deed.attempt.job.value(),
                                               deed.attempt.attempt),
                   .source = by.source,
                   .detail = deed.detail};
  const auto add = [&event](const char* name, std::string value) {
    if (!value.empty()) event.more.emplace_back(name, std::move(value));
  };
  const bool launches = deed.kind == Deed::Kind::kLaunch ||
                        deed.kind == Deed::Kind::kRefuseLaunch || deed.kind == Deed::Kind::kCheck;
  if (launches) add("user", deed.user.empty() ? own_user : deed.user);
  add("ranks", RanksText(deed.ranks));
  if (launches) add("cwd", deed.directory);
  if (launches) add("argv", ArgvText(deed.argv));
  return event;
}

AuditEvent RenewalEvent(const CertificateLook& look, const std::string& node) {
  AuditEvent event{.event = "renew",
                   .decision = "allowed",
                   .who = node,
                   .serial = look.serial,
                   .detail = fmt::format("good until {}", FormatUtc(look.not_after))};
  if (!look.new_authorities.empty()) {
    event.more.emplace_back("new_authorities",
                            fmt::format("{}", fmt::join(look.new_authorities, " ")));
  }
  return event;
}

std::string RanksText(std::vector<uint32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::to_string(ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string ArgvText(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& word : argv) {
    if (!text.empty()) text += ' ';
    text += LogQuoted(word);
    // What would be cut off need not be made.
    if (text.size() > kMaxAuditMoreBytes) break;
  }
  return text;
}

}  // namespace muster
