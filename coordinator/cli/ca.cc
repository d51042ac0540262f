// `coordinator ca`: the authority of the cluster.
#include "coordinator/cli/ask.h"
#include "coordinator/cli/authority_view.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"

namespace muster {
namespace {

int Ask(Arguments arguments, Reporter& reporter, std::string usage, std::string about,
        absl::StatusOr<v1::Authority> (Client::*call)()) {
  std::string server;
  bool json = false;
  Flags flags(std::move(usage), std::move(about));
  AddOutputFlag(flags, &json);
  AddServerFlag(flags, &server);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  return AskCoordinator(
      server, reporter, [&](Client& client) { return (client.*call)(); },
      [&](const v1::Authority& authority) {
        return json ? AuthorityToJson(authority) : RenderAuthority(authority);
      });
}

int Show(Arguments arguments, Reporter& reporter) {
  return Ask(arguments, reporter, "ca show [flags]",
             "Shows the authority of the cluster, and how far a change of it has come.",
             &Client::GetAuthority);
}

int Rotate(Arguments arguments, Reporter& reporter) {
  return Ask(arguments, reporter, "ca rotate [flags]",
             "Replaces the authority of the cluster by a new one, under running jobs. The nodes "
             "learn to trust the new one, then get certificates of it, then the old one is "
             "dropped. It goes on by itself, and waits for every node whose certificate is "
             "good: `ca show` names them.",
             &Client::RotateAuthority);
}

constexpr Subcommand kSubcommands[] = {{"show", Show}, {"rotate", Rotate}};

}  // namespace

int RunCa(Arguments arguments, Reporter& reporter) {
  return RunSubcommand("ca", "The authority that signs the certificates of the cluster.",
                       kSubcommands, arguments, reporter);
}

}  // namespace muster
