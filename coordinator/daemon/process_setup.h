// What a process with a coordinator does first, in main(), before any thread exists.
#pragma once

namespace muster {

// Ignores SIGPIPE (a closed console must not end a job) and SIGXFSZ (a file size limit is an error
// like a full disk), raises the soft limit of open files to the hard one, and prepares for gRPC.
void PrepareProcess();

}  // namespace muster
