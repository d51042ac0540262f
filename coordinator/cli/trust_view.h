// Tokens and members for people, and as JSON. Pure: values in, text with its final newline out.
#pragma once

#include <ctime>
#include <string>

#include "muster/v1/trust.pb.h"

namespace muster {

// "agent", "user" or "admin".
std::string MemberKindWord(v1::MemberKind kind);

// A new token with the line that uses it.
std::string RenderNewToken(const v1::CreateTokenResponse& token);
std::string RenderTokens(const v1::ListTokensResponse& tokens);
// `now`: seconds since 1970, to tell whose certificate has ended.
std::string RenderMembers(const v1::ListMembersResponse& members, std::time_t now);

std::string NewTokenToJson(const v1::CreateTokenResponse& token);
std::string TokensToJson(const v1::ListTokensResponse& tokens);
std::string MembersToJson(const v1::ListMembersResponse& members);

}  // namespace muster
