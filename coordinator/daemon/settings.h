// What the configuration file, the environment and the flags of `coordinator serve` and `init` say
// together. Blocks on the disk while it reads the file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/config/diagnostics.h"
#include "common/config/settings.h"
#include "coordinator/daemon/service.h"

namespace muster {

// Flags that were given, by the key of their setting ("state_dir") with their values; they win.
using GivenFlags = std::map<std::string, std::vector<std::string>>;

struct ServiceSettings {
  ServiceOptions options;
  // Of the log, unless MUSTER_LOG says otherwise.
  std::string log_level;
  // The file that was read; empty: none.
  std::string file;
  // For people: every setting with who says it.
  std::string shown;
};

// Collects them. `file`: the value of --config; nothing: the default file, if it is there; empty:
// none. Everything that is wrong is in `diagnostics`.
ServiceSettings CollectServiceSettings(const GivenFlags& flags,
                                       const std::optional<std::string>& file,
                                       Diagnostics& diagnostics);

}  // namespace muster
