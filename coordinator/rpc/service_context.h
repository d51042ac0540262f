// What the services of the coordinator share. Everything outlives the gRPC server.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <string_view>
#include <utility>

#include "common/base/executor.h"
#include "coordinator/core/coordinator_core.h"
#include "coordinator/logs/log_store.h"
#include "coordinator/rpc/live_calls.h"
#include "coordinator/rpc/peers.h"

namespace muster {

struct ServiceContext {
  // The loop. The core is only touched in tasks posted to it.
  Executor& loop;
  CoordinatorCore& core;
  LogStore& logs;
  const PeerDirectory& peers;
  LiveCalls& live_calls;
  // Told on the loop about every job that was accepted, before its submitter is; may be empty.
  std::function<void(const JobId&)> on_job_accepted;
};

// The peer of a call, with role kNobody when it may not call `method`. Any thread.
inline Peer Authorize(const ServiceContext& services, const grpc::CallbackServerContext& call,
                      std::string_view method) {
  Peer peer = services.peers.Identify(call);
  if (!IsAllowed(method, peer.role)) return {.refusal = std::move(peer.refusal)};
  return peer;
}

// What the core is told about a peer.
inline Caller CallerOf(const Peer& peer) { return {peer.user, peer.role == Role::kAdmin}; }

// What a peer is told that may not call a method.
inline grpc::Status Denied(std::string_view method, const Peer& peer = {}) {
  return {grpc::StatusCode::PERMISSION_DENIED,
          peer.refusal.empty() ? fmt::format("you may not call {}", method) : peer.refusal};
}

}  // namespace muster
