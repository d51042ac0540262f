// Client channels with the settings of this project: no proxies, keepalive on, decompression off,
// quick reconnects, bounded messages. The one place where a channel is made. Thread-safe.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <functional>
#include <memory>
#include <string>

namespace muster {

// Channels of different use never share a connection, even to the same target, so that a flood on
// one cannot delay the other.
enum class ChannelUse { kControl, kLogs };

grpc::ChannelArguments ChannelSettings(ChannelUse use);

// True for `unix:/absolute/path` and `unix:relative/path`, which are used without credentials.
bool IsUnixTarget(const std::string& target);
// OK for those and for HOST:PORT and [IPv6]:PORT; else INVALID_ARGUMENT.
absl::Status CheckTarget(const std::string& target);

// A channel to `target`, which CheckTarget must approve of; its error else. HOST:PORT needs
// credentials: UNAUTHENTICATED without. Connects lazily and again for ever; calls that shall
// outlast a missing server set wait_for_ready and a deadline.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    const std::string& target, ChannelUse use = ChannelUse::kControl,
    std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr);

// Makes a new channel to one place, with what is known at that time of the way to it and of the
// credentials. The error says what is wrong with these.
using Dialer = std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>(ChannelUse use)>;
// For a Unix socket. `target` must be one that CheckTarget approves of.
Dialer DialerTo(std::string target);

}  // namespace muster
