// Tokens and members for people, and as JSON. Pure: values in, text with its final newline out.
#pragma once

#include <string>

#include "muster/v1/trust.pb.h"

namespace muster {

// A new token with the line that uses it.
std::string RenderNewToken(const v1::CreateTokenResponse& token);
std::string RenderTokens(const v1::ListTokensResponse& tokens);
std::string RenderMembers(const v1::ListMembersResponse& members);

std::string NewTokenToJson(const v1::CreateTokenResponse& token);
std::string TokensToJson(const v1::ListTokensResponse& tokens);
std::string MembersToJson(const v1::ListMembersResponse& members);

}  // namespace muster
