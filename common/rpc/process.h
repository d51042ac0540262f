// Prepares a process for gRPC. Call once in main(), before any other thread exists, before any gRPC
// object is made, and after the signals are blocked that no other thread may take.
#pragma once

namespace muster {

// Turns gRPC's fork handlers off (they can deadlock; children are only ever made by posix_spawn)
// and sends gRPC's own log lines to the log of the process instead of stderr, everything below an
// error as debug lines.
void PrepareProcessForGrpc();

}  // namespace muster
