// The authority of a cluster for people, and as JSON. Pure: values in, text with its final newline
// out.
#pragma once

#include <string>

#include "muster/v1/authority.pb.h"

namespace muster {

std::string RenderAuthority(const v1::Authority& authority);
std::string AuthorityToJson(const v1::Authority& authority);

}  // namespace muster
