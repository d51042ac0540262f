// The fuzz targets of what strangers send and people paste: join tokens, identities, join requests,
// the first message of a TLS client.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace muster {

std::string FuzzJoinToken(std::string_view bytes);
std::string FuzzIdentity(std::string_view bytes);
std::string FuzzJoinRequest(std::string_view bytes);
std::string FuzzClientHello(std::string_view bytes);

std::vector<FuzzTarget> TrustFuzzTargets();

}  // namespace muster
