// What joining and coming back have in common: one request, one reply, and what to make of it. Not
// for others than common/trust.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/trust/credentials.h"
#include "common/trust/tls_dial.h"
#include "muster/v1/join.pb.h"

namespace muster {

// What others sent, fit for a terminal.
std::string Shown(std::string_view text);

// An error of the handshake in the words of somebody who joins.
absl::Status JoinHandshakeStatus(const absl::Status& status, const std::string& address);

// `again`: what to do when the connection is lost, for the text.
absl::StatusOr<v1::JoinReply> ExchangeJoin(TlsDial& dial, const v1::JoinRequest& request,
                                           std::string_view again);

// Why a reply is no acceptance. UNAVAILABLE: try again. PERMISSION_DENIED: refused.
absl::Status RefusalStatus(const v1::JoinReply& reply, const std::string& address);

// What was handed out, once it fits `key` and the cluster of `server`. FAILED_PRECONDITION: the
// clocks differ.
absl::StatusOr<Credentials> AcceptedCredentials(const v1::JoinReply& reply, const Identity& server,
                                                const PrivateKey& key, const std::string& address,
                                                WallTime now);

// That a certificate is valid at `now`. FAILED_PRECONDITION else, with both clocks.
absl::Status CheckClocks(const Certificate& certificate, WallTime now, WallTime theirs);

}  // namespace muster
