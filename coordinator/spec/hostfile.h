// Reads hostfiles, a superset of what gaudi_spawn.py and deepspeed accept. Pure.
//
//     host slots=N [max_slots=M] [addr=ADDRESS] [port=P] [modules=0,1,4-7] [key=value...]
//
// `#` starts a comment anywhere. A host is a name, an IPv4 address, or an IPv6 address bare or in
// brackets; `user@` in front is ignored with a warning. `port` is checked and has no effect. Keys
// that are not known are ignored with a warning where `slots` is given, and refused where it is
// not: `lots=8` and `gpus=8` (which gaudi_spawn.py took for slots, and deepspeed refused) are meant
// to be slots. `node[1-8,12]-r[1-2]` stands for several hosts, zeros and order kept. A line without
// `slots` means every slot that the node has, unless one such name occurs twice: then every such
// line counts one rank.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/config/diagnostics.h"
#include "coordinator/spec/host_name.h"
#include "muster/v1/job.pb.h"

namespace muster {

// Most slots that one host may have.
inline constexpr uint32_t kMaxSlotsPerHost = 4096;
// Most slots that the hosts of one file may have together.
inline constexpr uint64_t kMaxSlots = 1'000'000;

// Reads a hostfile. `file` is its path as the user wrote it: it appears in diagnostics and in
// HostEntry.source. Hosts come in file order; `modules=` fills selected_slots and slot_count. After
// an error the result is incomplete and only good for further checks. A file without any host is an
// error.
std::vector<v1::HostEntry> ParseHostfile(std::string_view text, std::string_view file,
                                         Diagnostics& diagnostics);

}  // namespace muster
