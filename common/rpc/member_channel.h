// Channels of a member of a cluster to its coordinator, over mutual TLS.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <string>

#include "common/rpc/channel.h"
#include "common/rpc/tls.h"
#include "common/trust/credentials.h"

namespace muster {

// A channel to `target`, HOST:PORT, with these credentials. A server that is no coordinator of the
// member's cluster is refused; the calls then fail with UNAVAILABLE, and gRPC does not say why.
// `met` hears of each coordinator that was taken, on threads of gRPC; may be empty.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeMemberChannel(
    const Credentials& credentials, const std::string& target, ChannelUse use,
    std::function<void(const TlsPeer&)> met = {});

// Dials `target`, or where it is empty the coordinators that the credentials name, one after the
// other; for output the one that was dialled last for control. The credentials are read anew from
// `directory` each time: they are renewed now and then.
Dialer MemberDialer(CredentialsDirectory directory, std::string target,
                    std::function<void(const TlsPeer&)> met = {});

}  // namespace muster
