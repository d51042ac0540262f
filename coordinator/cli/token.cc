// `coordinator token`: what lets nodes join.
#include <fmt/format.h>

#include <limits>

#include "common/io/atomic_file.h"
#include "coordinator/cli/ask.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/run_flags.h"
#include "coordinator/cli/trust_view.h"
#include "coordinator/core/proto_time.h"

namespace muster {
namespace {

int Create(Arguments arguments, Reporter& reporter) {
  std::string server;
  bool json = false;
  v1::CreateTokenRequest request;
  request.set_kind(v1::MEMBER_AGENT);
  std::string name;
  std::string network;
  Flags flags("token create [flags]",
              "Makes a token with which nodes join the cluster. It is shown once: whoever has it "
              "can join.");
  std::optional<int> nodes;
  flags.Value("nodes", "N", SetInt(&nodes, 1, std::numeric_limits<int>::max()),
              "how many can join with it (default 1)");
  flags.Text("name", "NODE", &name, "the only node that can join with it");
  flags.Text("network", "CIDR", &network, "the only network to join from, as 10.0.0.0/8");
  std::optional<Duration> life;
  flags.Value("ttl", "TIME", SetDuration(&life), "how long it is good, as 30m or 2h (default 1h)");
  std::string token_file;
  flags.Text("token-file", "FILE", &token_file,
             "write the token there, mode 0600, and do not show it; for `agent join --token-file`");
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  if (nodes) request.set_uses(static_cast<uint32_t>(*nodes));
  if (life) *request.mutable_life() = ToProtoDuration(*life);
  request.set_name(name);
  request.set_network(network);
  absl::StatusOr<Place> place = FindCoordinator(server);
  if (!place.ok()) return ReportError(place.status(), reporter);
  const absl::StatusOr<v1::CreateTokenResponse> token = place->client->CreateToken(request);
  if (!token.ok()) return ReportError(token.status(), reporter);
  if (!token_file.empty()) {
    const std::error_code error =
        WriteFileAtomically(token_file, token->token() + "\n", 0600, Durability::kPowerLoss);
    if (!error) return 0;
    (void)place->client->DeleteToken(token->info().token_id());
    reporter.Say(
        fmt::format("--token-file: {} cannot be written: {}", token_file, error.message()));
    return kExitUsage;
  }
  return PrintResult(json ? NewTokenToJson(*token) : RenderNewToken(*token), reporter);
}

int List(Arguments arguments, Reporter& reporter) {
  std::string server;
  bool json = false;
  Flags flags("token list [flags]", "Lists the tokens, without their secrets.");
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  return AskCoordinator(
      server, reporter, [](Client& client) { return client.ListTokens(); },
      [&](const v1::ListTokensResponse& tokens) {
        return json ? TokensToJson(tokens) : RenderTokens(tokens);
      });
}

int Delete(Arguments arguments, Reporter& reporter) {
  std::string server;
  std::string id;
  Flags flags("token delete ID [flags]",
              "Makes a token useless. Nodes that have joined with it stay.");
  flags.Positional("ID", &id);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  absl::StatusOr<Place> place = FindCoordinator(server);
  if (!place.ok()) return ReportError(place.status(), reporter);
  const absl::Status status = place->client->DeleteToken(id);
  return status.ok() ? 0 : ReportError(status, reporter);
}

constexpr Subcommand kSubcommands[] = {{"create", Create}, {"list", List}, {"delete", Delete}};

}  // namespace

int RunToken(Arguments arguments, Reporter& reporter) {
  return RunSubcommand(
      "token", "Tokens let nodes join the cluster: `agent join HOST:PORT TOKEN` on the node.",
      kSubcommands, arguments, reporter);
}

}  // namespace muster
