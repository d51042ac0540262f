#include "coordinator/cli/trust_view.h"

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "coordinator/cli/render.h"

namespace muster {
namespace {

using google::protobuf::util::TimeUtil;
using Json = nlohmann::ordered_json;

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string StateWord(const v1::Member& member, std::time_t now) {
  if (member.revoked()) return "revoked";
  return member.certificate_end_time().seconds() <= now ? "ended" : "good";
}

Json ToJson(const v1::Token& token) {
  return {{"token_id", token.token_id()},
          {"kind", MemberKindWord(token.kind())},
          {"name", token.name()},
          {"network", token.network()},
          {"uses_left", token.uses_left()},
          {"create_time", TimeUtil::ToString(token.create_time())},
          {"expire_time", TimeUtil::ToString(token.expire_time())}};
}

std::string Text(const Json& json) { return json.dump(2) + "\n"; }

}  // namespace

std::string MemberKindWord(v1::MemberKind kind) {
  switch (kind) {
    case v1::MEMBER_AGENT:
      return "agent";
    case v1::MEMBER_USER:
      return "user";
    case v1::MEMBER_ADMIN:
      return "admin";
    default:
      return "unknown";
  }
}

std::string RenderNewToken(const v1::CreateTokenResponse& token) {
  const v1::Token& info = token.info();
  const std::string address = token.addresses().empty() ? "HOST:7443" : token.addresses(0);
  if (info.kind() == v1::MEMBER_USER) {
    return fmt::format(
        "good for user {} until {}; for that person to type:\n"
        "  coordinator join {} {}\n",
        info.name(), TimeUtil::ToString(info.expire_time()), address, token.token());
  }
  return fmt::format(
      "good for {} {} until {}; on each of them:\n"
      "  agent join {} {}\n",
      info.uses_left(),
      info.kind() == v1::MEMBER_AGENT ? (info.uses_left() == 1 ? "node" : "nodes")
                                      : MemberKindWord(info.kind()),
      TimeUtil::ToString(info.expire_time()), address, token.token());
}

std::string RenderTokens(const v1::ListTokensResponse& tokens) {
  std::vector<std::vector<std::string>> rows = {{"TOKEN", "FOR", "NAME", "FROM", "LEFT", "UNTIL"}};
  for (const v1::Token& token : tokens.tokens()) {
    rows.push_back({token.token_id(), MemberKindWord(token.kind()), OrDash(token.name()),
                    OrDash(token.network()), std::to_string(token.uses_left()),
                    TimeUtil::ToString(token.expire_time())});
  }
  return RenderTable(rows);
}

std::string RenderMembers(const v1::ListMembersResponse& members, std::time_t now) {
  std::vector<std::vector<std::string>> rows = {
      {"KIND", "NAME", "STATE", "CERTIFICATE UNTIL", "KEY"}};
  for (const v1::Member& member : members.members()) {
    rows.push_back({MemberKindWord(member.kind()), member.name(), StateWord(member, now),
                    TimeUtil::ToString(member.certificate_end_time()),
                    fmt::format("sha256:{}", member.key_sha256().substr(0, 16))});
  }
  return RenderTable(rows);
}

std::string NewTokenToJson(const v1::CreateTokenResponse& token) {
  Json json = ToJson(token.info());
  json["token"] = token.token();
  json["addresses"] = Json::array();
  for (const std::string& address : token.addresses()) json["addresses"].push_back(address);
  return Text(json);
}

std::string TokensToJson(const v1::ListTokensResponse& tokens) {
  Json list = Json::array();
  for (const v1::Token& token : tokens.tokens()) list.push_back(ToJson(token));
  return Text({{"tokens", std::move(list)}});
}

std::string MembersToJson(const v1::ListMembersResponse& members) {
  Json list = Json::array();
  for (const v1::Member& member : members.members()) {
    list.push_back({{"kind", MemberKindWord(member.kind())},
                    {"name", member.name()},
                    {"revoked", member.revoked()},
                    {"serial", member.serial()},
                    {"key_sha256", member.key_sha256()},
                    {"join_time", TimeUtil::ToString(member.join_time())},
                    {"certificate_end_time", TimeUtil::ToString(member.certificate_end_time())}});
  }
  return Text({{"members", std::move(list)}});
}

}  // namespace muster
