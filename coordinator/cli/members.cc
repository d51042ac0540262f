// `coordinator members` and `coordinator revoke`.
#include <fmt/format.h>

#include <ctime>

#include "coordinator/cli/ask.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/cli/trust_view.h"

namespace muster {

int RunMembers(Arguments arguments, Reporter& reporter) {
  std::string server;
  bool json = false;
  Flags flags("members [flags]", "Lists who belongs to the cluster: nodes and people.");
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  return AskCoordinator(
      server, reporter, [](Client& client) { return client.ListMembers(); },
      [&](const v1::ListMembersResponse& members) {
        return json ? MembersToJson(members) : RenderMembers(members, std::time(nullptr));
      });
}

int RunRevoke(Arguments arguments, Reporter& reporter) {
  std::string server;
  std::string kind;
  v1::RevokeMemberRequest request;
  std::string name;
  bool free_name = false;
  Flags flags("revoke agent|user|admin NAME [flags]",
              "Shuts a member out, at once and for good: its certificates are not good any more "
              "and its connections are cut.");
  flags.Positional("KIND", &kind);
  flags.Positional("NAME", &name);
  flags.Switch("free-name", &free_name, "let another one join under the name");
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  if (kind == "agent" || kind == "node") {
    request.set_kind(v1::MEMBER_AGENT);
  } else if (kind == "user") {
    request.set_kind(v1::MEMBER_USER);
  } else if (kind == "admin") {
    request.set_kind(v1::MEMBER_ADMIN);
  } else {
    reporter.Say(fmt::format("revoke: expected agent, user or admin, got '{}'", kind));
    return kExitUsage;
  }
  request.set_name(name);
  request.set_free_name(free_name);
  return AskCoordinator(
      server, reporter, [&](Client& client) { return client.RevokeMember(request); },
      [&](const v1::RevokeMemberResponse& done) {
        return fmt::format("{} {} is shut out: {} certificates, {} connections cut\n", kind, name,
                           done.certificates(), done.streams());
      });
}

}  // namespace muster
