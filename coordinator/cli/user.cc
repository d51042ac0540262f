// `coordinator user`: people who submit jobs over the network.
#include <ctime>

#include "coordinator/cli/ask.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/run_flags.h"
#include "coordinator/cli/trust_view.h"
#include "coordinator/core/proto_time.h"

namespace muster {
namespace {

int Add(Arguments arguments, Reporter& reporter) {
  std::string server;
  bool json = false;
  std::string name;
  std::string network;
  v1::CreateTokenRequest request;
  request.set_kind(v1::MEMBER_USER);
  Flags flags("user add NAME [flags]",
              "Makes a token with which one person becomes user NAME of the cluster, by "
              "`coordinator join`. Ranks of this user's jobs run as NAME on nodes that allow it.");
  flags.Positional("NAME", &name);
  flags.Text("network", "CIDR", &network, "the only network to join from, as 10.0.0.0/8");
  std::optional<Duration> life;
  flags.Value("ttl", "TIME", SetDuration(&life),
              "how long the token is good, as 30m or 2h (default 1h)");
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  if (life) *request.mutable_life() = ToProtoDuration(*life);
  request.set_name(name);
  request.set_network(network);
  return AskCoordinator(
      server, reporter, [&](Client& client) { return client.CreateToken(request); },
      [&](const v1::CreateTokenResponse& token) {
        return json ? NewTokenToJson(token) : RenderNewToken(token);
      });
}

int List(Arguments arguments, Reporter& reporter) {
  std::string server;
  bool json = false;
  Flags flags("user list [flags]", "Lists the users of the cluster.");
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  return AskCoordinator(
      server, reporter, [](Client& client) { return client.ListMembers(); },
      [&](const v1::ListMembersResponse& members) {
        v1::ListMembersResponse users;
        for (const v1::Member& member : members.members()) {
          if (member.kind() == v1::MEMBER_USER) *users.add_members() = member;
        }
        return json ? MembersToJson(users) : RenderMembers(users, std::time(nullptr));
      });
}

int Remove(Arguments arguments, Reporter& reporter) {
  std::string server;
  std::string name;
  bool free_name = false;
  Flags flags(
      "user remove NAME [flags]",
      "Shuts a user out on all machines, at once and for good, as `revoke user NAME` does.");
  flags.Positional("NAME", &name);
  flags.Switch("free-name", &free_name, "let somebody else, or the same person, join as NAME");
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  std::vector<std::string> words = {"user", name};
  if (free_name) words.push_back("--free-name");
  if (!server.empty()) words.insert(words.end(), {"--server", server});
  return RunRevoke(words, reporter);
}

constexpr Subcommand kSubcommands[] = {{"add", Add}, {"list", List}, {"remove", Remove}};

}  // namespace

int RunUser(Arguments arguments, Reporter& reporter) {
  return RunSubcommand("user",
                       "People who submit jobs over the network. `user remove NAME` is `revoke "
                       "user NAME`; with --free-name the name can be added again.",
                       kSubcommands, arguments, reporter);
}

}  // namespace muster
