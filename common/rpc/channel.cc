#include "common/rpc/channel.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "common/rpc/keepalive.h"
#include "common/rpc/limits.h"

namespace muster {

grpc::ChannelArguments ChannelSettings(ChannelUse use) {
  grpc::ChannelArguments args;
  // A proxy variable of the user's shell must not capture the launcher's own connections.
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A local coordinator and its agents start at the same time: look again soon.
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 200);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 3000);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  args.SetMaxReceiveMessageSize(kMaxMessageBytes);
  args.SetMaxSendMessageSize(kMaxMessageBytes);
  // Service configs come from name servers; nothing here shall be steered by one.
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  args.SetString("muster.use", use == ChannelUse::kLogs ? "logs" : "control");
  return args;
}

absl::Status CheckTarget(const std::string& target) {
  if (target.starts_with("unix:") && target.size() > 5) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "coordinator address '{}' is not understood: expected unix:/path/of/socket", target));
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& target,
                                                           ChannelUse use) {
  absl::Status status = CheckTarget(target);
  if (!status.ok()) return status;
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                   ChannelSettings(use));
}

}  // namespace muster
