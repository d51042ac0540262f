// Server settings of this project. The one place where a ServerBuilder is configured.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>

namespace muster {

// Keepalive that fits the clients', no port sharing, decompression off, bounded messages and
// streams. Adds no listening port: connections come from an AcceptLoop or in-process channels.
void ApplyServerSettings(grpc::ServerBuilder& builder);

// Refuses new calls, lets running ones go on for `grace`, cancels the rest and waits for the end.
// Blocks for `grace` and a little more: never call it in a gRPC reaction.
void ShutdownServer(grpc::Server& server, std::chrono::milliseconds grace);

}  // namespace muster
