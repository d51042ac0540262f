// libhlml, the vendor's management library, taken in at run time. For a process of its own only: a
// library that hangs or crashes must not take the agent with it (hlml_query.h).
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "muster/v1/node.pb.h"

namespace muster {

// Takes the library in and asks it about every card: module id, index, serial and ports in
// `facts.devices`, the rest in `readings`. A function that the library lacks, or that answers "not
// supported", leaves its field unset. An error when nothing can be asked: the library cannot be
// taken in, lacks what is needed to name a card, or says that there is no driver.
absl::StatusOr<v1::Node> AskHlml(const std::string& library);

// A return code of the library in words. Pure.
std::string HlmlError(int code);

// The child's side: asks, and writes the answer to what was standard output, which it takes from
// the library before. Returns the exit status; an error goes to standard error.
int RunHlmlQuery(const std::string& library);

}  // namespace muster
