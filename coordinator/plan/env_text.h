// Shows environment assignments to people. Pure; usable from any thread. Secrets are masked by the
// rule of coordinator/spec/env_names.h; nothing else turns an assignment into text for a screen.
#pragma once

#include <string>
#include <string_view>

#include "muster/v1/types.pb.h"

namespace muster {

// The value with `${NAME}` for a variable and `~` for the home directory of the node, other bytes
// as they are, masked where its name or its text says secret.
std::string ShownValue(const v1::EnvAssignment& assignment);

// Name of a layer as people see it, for example `env file`.
std::string_view LayerName(v1::EnvLayer layer);

}  // namespace muster
