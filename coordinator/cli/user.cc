// `coordinator user`: people who submit jobs over the network.
#include <fmt/format.h>

#include <ctime>

#include "common/base/annotate.h"
#include "common/config/duration.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/place.h"
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
  flags.Value(
      "ttl", "TIME",
      [&request](std::string_view value) -> std::string {
        const absl::StatusOr<Duration> life = ParseDuration(value);
        if (!life.ok()) return std::string(MessageOf(life.status()));
        *request.mutable_life() = ToProtoDuration(*life);
        return "";
      },
      "how long the token is good, as 30m or 2h (default 1h)");
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  request.set_name(name);
  request.set_network(network);
  absl::StatusOr<Place> place = FindCoordinator(server);
  if (!place.ok()) return ReportError(place.status(), reporter);
  const absl::StatusOr<v1::CreateTokenResponse> token = place->client->CreateToken(request);
  if (!token.ok()) return ReportError(token.status(), reporter);
  return PrintResult(json ? NewTokenToJson(*token) : RenderNewToken(*token), reporter);
}

int List(Arguments arguments, Reporter& reporter) {
  std::string server;
  bool json = false;
  Flags flags("user list [flags]", "Lists the users of the cluster.");
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  absl::StatusOr<Place> place = FindCoordinator(server);
  if (!place.ok()) return ReportError(place.status(), reporter);
  const absl::StatusOr<v1::ListMembersResponse> members = place->client->ListMembers();
  if (!members.ok()) return ReportError(members.status(), reporter);
  v1::ListMembersResponse users;
  for (const v1::Member& member : members->members()) {
    if (member.kind() == v1::MEMBER_USER) *users.add_members() = member;
  }
  return PrintResult(json ? MembersToJson(users) : RenderMembers(users, std::time(nullptr)),
                     reporter);
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

}  // namespace

int RunUser(Arguments arguments, Reporter& reporter) {
  const std::string what = arguments.empty() ? "" : arguments[0];
  if (what == "add") return Add(arguments.subspan(1), reporter);
  if (what == "list") return List(arguments.subspan(1), reporter);
  if (what == "remove") return Remove(arguments.subspan(1), reporter);
  const std::string text =
      "usage: coordinator user add|list|remove [flags]\n"
      "\n"
      "People who submit jobs over the network. `user remove NAME` is `revoke user NAME`; with "
      "--free-name the name can be added again. Each command has --help.\n";
  if (what == "--help" || what == "-h") return PrintResult(text, reporter);
  reporter.Say(what.empty() ? "user: expected add, list or remove"
                            : fmt::format("user: expected add, list or remove, got '{}'", what));
  return kExitUsage;
}

}  // namespace muster
