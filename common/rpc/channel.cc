#include "common/rpc/channel.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>

#include <string_view>
#include <utility>

#include "common/rpc/keepalive.h"
#include "common/rpc/limits.h"
#include "common/rpc/thin_stream.h"

namespace muster {
namespace {

bool IsHostAndPort(const std::string& target) {
  const size_t colon = target.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::string_view host = std::string_view(target).substr(0, colon);
  const std::string_view port = std::string_view(target).substr(colon + 1);
  if (port.empty() || port.size() > 5 ||
      port.find_first_not_of("0123456789") != std::string_view::npos) {
    return false;
  }
  const bool bracketed = host.front() == '[' && host.back() == ']';
  // A name or an IPv4 address; of others only IPv6 has colons, and needs brackets.
  constexpr std::string_view kNameBytes =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
  return bracketed ? host.size() > 3 && host.find(':') != std::string_view::npos
                   : host.find_first_not_of(kNameBytes) == std::string_view::npos;
}

}  // namespace

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
  // In spite of its name: how long one attempt to connect may take.
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 3000);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  args.SetMaxReceiveMessageSize(kMaxMessageBytes);
  args.SetMaxSendMessageSize(kMaxMessageBytes);
  // Service configs come from name servers; nothing here shall be steered by one.
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  RetryThinStreamsSteadily(args);
  args.SetString("muster.use", use == ChannelUse::kLogs ? "logs" : "control");
  return args;
}

bool IsUnixTarget(const std::string& target) {
  return target.starts_with("unix:") && target.size() > 5;
}

absl::Status CheckTarget(const std::string& target) {
  if (IsUnixTarget(target) || IsHostAndPort(target)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("coordinator address '{}' is not understood: expected HOST:PORT, [IPv6]:PORT or "
                  "unix:/path/of/socket",
                  target));
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    const std::string& target, ChannelUse use,
    std::shared_ptr<grpc::ChannelCredentials> credentials) {
  absl::Status status = CheckTarget(target);
  if (!status.ok()) return status;
  if (IsUnixTarget(target)) {
    return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                     ChannelSettings(use));
  }
  if (credentials == nullptr) {
    return absl::UnauthenticatedError(
        fmt::format("there are no credentials for {}: join its cluster first", target));
  }
  return grpc::CreateCustomChannel("dns:///" + target, credentials, ChannelSettings(use));
}

Dialer DialerTo(std::string target) {
  return [target = std::move(target)](ChannelUse use) { return MakeChannel(target, use); };
}

}  // namespace muster
