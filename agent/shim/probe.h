// `muster-shim --probe`: looks at the node as the user whose ranks are to run there and tells what
// it sees (proto/muster/internal/probe.proto). A process of its own, because files of users may be
// on servers that do not answer, and their programs may hang: the agent kills it when it is late,
// and what it has told by then counts. Single-threaded; changes nothing.
#pragma once

#include "muster/internal/probe.pb.h"

namespace muster::shim {

// Reads a request from stdin and answers on stdout. The exit status of the process.
int RunProbe();

// What a path is like for this process; `reason` is empty when it is as it should be.
internal::ProbedPath LookAtPath(const internal::ProbePath& path,
                                const std::string& working_directory);

}  // namespace muster::shim
