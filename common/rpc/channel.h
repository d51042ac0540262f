// Client channels with the settings of this project: no proxies, keepalive on, decompression off,
// quick reconnects, bounded messages. The one place where a channel is made. Thread-safe.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <grpcpp/channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>

namespace muster {

// Channels of different use never share a connection, even to the same target, so that a flood on
// one cannot delay the other.
enum class ChannelUse { kControl, kLogs };

grpc::ChannelArguments ChannelSettings(ChannelUse use);

// OK for `unix:/absolute/path` and `unix:relative/path`: anything else needs credentials and is
// INVALID_ARGUMENT.
absl::Status CheckTarget(const std::string& target);

// A channel to `target`, which CheckTarget must approve of; its error else. Connects lazily and
// again for ever; calls that shall outlast a missing server set wait_for_ready and a deadline.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& target,
                                                           ChannelUse use = ChannelUse::kControl);

}  // namespace muster
