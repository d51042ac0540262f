#include "coordinator/cli/authority_view.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "common/config/duration.h"
#include "coordinator/cli/render.h"
#include "coordinator/cli/trust_view.h"

namespace muster {
namespace {

using google::protobuf::util::TimeUtil;
using Json = nlohmann::ordered_json;

std::string PhaseWord(v1::Authority::Phase phase) {
  switch (phase) {
    case v1::Authority::STEADY:
      return "steady";
    case v1::Authority::TRUST_BOTH:
      return "trust-both";
    case v1::Authority::ISSUE_NEW:
      return "issue-new";
    default:
      return "unknown";
  }
}

std::string PhaseText(const v1::Authority& authority) {
  switch (authority.phase()) {
    case v1::Authority::STEADY:
      return "steady: no change is under way";
    case v1::Authority::TRUST_BOTH:
      return "step 1 of 3: everybody learns to trust the new authority, the old one signs";
    case v1::Authority::ISSUE_NEW:
      return "step 2 of 3: everybody gets a certificate of the new authority";
    default:
      return "unknown";
  }
}

}  // namespace

std::string RenderAuthority(const v1::Authority& authority) {
  std::vector<std::vector<std::string>> rows = {{"AUTHORITY", "SIGNS", "MADE", "UNTIL"}};
  for (const v1::AuthorityCertificate& one : authority.certificates()) {
    rows.push_back({fmt::format("sha256:{}", one.key_sha256().substr(0, 16)),
                    one.signs() ? "yes" : "no", TimeUtil::ToString(one.create_time()),
                    TimeUtil::ToString(one.end_time())});
  }
  std::string text = RenderTable(rows);
  text += fmt::format(
      "change       {}\n"
      "coordinator  its certificate is good until {}\n"
      "nodes        their certificates are good for {}\n",
      PhaseText(authority), TimeUtil::ToString(authority.coordinator_certificate_end_time()),
      FormatDuration(std::chrono::seconds(authority.certificate_life_seconds())));
  if (authority.awaited().empty()) return text;
  text += "waits for (start them, or revoke those that are gone):\n";
  rows = {{"KIND", "NAME", "CERTIFICATE UNTIL"}};
  for (const v1::AwaitedMember& one : authority.awaited()) {
    rows.push_back(
        {MemberKindWord(one.kind()), one.name(), TimeUtil::ToString(one.certificate_end_time())});
  }
  return text + RenderTable(rows);
}

std::string AuthorityToJson(const v1::Authority& authority) {
  Json certificates = Json::array();
  for (const v1::AuthorityCertificate& one : authority.certificates()) {
    certificates.push_back({{"key_sha256", one.key_sha256()},
                            {"signs", one.signs()},
                            {"create_time", TimeUtil::ToString(one.create_time())},
                            {"end_time", TimeUtil::ToString(one.end_time())}});
  }
  Json awaited = Json::array();
  for (const v1::AwaitedMember& one : authority.awaited()) {
    awaited.push_back({{"kind", MemberKindWord(one.kind())},
                       {"name", one.name()},
                       {"certificate_end_time", TimeUtil::ToString(one.certificate_end_time())}});
  }
  const Json json = {{"phase", PhaseWord(authority.phase())},
                     {"certificates", std::move(certificates)},
                     {"awaited", std::move(awaited)},
                     {"certificate_life_seconds", authority.certificate_life_seconds()},
                     {"coordinator_certificate_end_time",
                      TimeUtil::ToString(authority.coordinator_certificate_end_time())}};
  return json.dump(2) + "\n";
}

}  // namespace muster
