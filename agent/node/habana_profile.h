// What the profile that comes with the Habana software sets for logins: the files of its compilers
// and libraries, which images set by ENV and services do not. The shell is never run: only lines
// that mean the same without one are taken. Reads one small file; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/v1/types.pb.h"

namespace muster {

// Below the root of the node.
inline constexpr char kHabanaProfile[] = "/etc/profile.d/habanalabs.sh";

// GC_KERNEL_PATH, HABANA_LOGS, HABANA_SCAL_BIN_PATH, HABANA_PLUGINS_LIB_PATH and
// DATA_LOADER_AEON_LIB_PATH, as far as `text` sets them by plain lines: `NAME=value` or
// `export NAME=value`, the value bare or in quotes, with `$NAME`, `${NAME}` and a leading `~`. What
// a name that the text itself sets stands for is filled in; others stay references. A name that any
// other line sets, too (in an `if`, by a command, behind a `;`), is left out, as nobody but a shell
// knows its value. Of two plain lines the later counts. In order of names; layer and source are
// set.
std::vector<v1::EnvAssignment> ParseHabanaProfile(std::string_view text);

// The same of the file below `sysroot`, which is empty for this machine; none when it cannot be
// read or is longer than 64 KiB.
std::vector<v1::EnvAssignment> ReadHabanaProfile(const std::string& sysroot);

}  // namespace muster
