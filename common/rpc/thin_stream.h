// What connections that carry little, as heartbeats, ask of TCP.
#pragma once

#include <grpcpp/support/channel_arguments.h>

namespace muster {

// A packet of a connection that has few on their way is sent again after one and the same time, for
// six times, and not after twice the time of before: on a line that loses three packets of ten, a
// heartbeat that is lost four times in a row is late by 1 s, not by 6. Does nothing where it is no
// socket of TCP (Linux, tcp(7): thin linear timeouts).
void RetryThinStreamsSteadily(int fd);

// The same for the connections of a channel, from their beginning.
void RetryThinStreamsSteadily(grpc::ChannelArguments& settings);

}  // namespace muster
