// `coordinator join`: this user becomes a user of a cluster.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/annotate.h"
#include "common/base/clock.h"
#include "common/base/utc.h"
#include "common/base/version.h"
#include "common/io/state_lock.h"
#include "common/trust/credentials.h"
#include "common/trust/join_client.h"
#include "common/trust/token_file.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"

namespace muster {
namespace {

absl::StatusOr<Credentials> JoinAsUser(const std::string& address, const std::string& token,
                                       const std::string& folder) {
  const absl::Status made = MakeStateDirectory(folder.substr(0, folder.rfind('/')));
  if (!made.ok()) return made;
  const CredentialsDirectory directory(folder);
  const absl::StatusOr<PrivateKey> key = directory.PendingKey();
  if (!key.ok()) return key.status();
  absl::StatusOr<Credentials> credentials = Join({.address = address,
                                                  .token = token,
                                                  .kind = IdentityKind::kUser,
                                                  .version = std::string(kVersion),
                                                  .key = *key},
                                                 SystemClock());
  if (!credentials.ok()) return credentials;
  const absl::Status installed = directory.Install(*credentials);
  if (!installed.ok()) return installed;
  return credentials;
}

}  // namespace

int RunJoin(Arguments arguments, Reporter& reporter) {
  std::string address;
  std::string token;
  std::string token_file;
  const std::string folder = UserTrustDirectory();
  Flags flags("join HOST:PORT [TOKEN] [flags]",
              "Makes you a user of a cluster, with a token of `coordinator user add`. From then on "
              "your commands reach its coordinator over the network.");
  flags.Positional("HOST:PORT", &address);
  flags.Positional("TOKEN", &token, /*required=*/false);
  flags.Text(
      "token-file", "FILE", &token_file,
      "file that holds the token; -: standard input. Others can see arguments in the list of "
      "processes");
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  if (token.empty() == token_file.empty()) {
    reporter.Say("join: give the token, or --token-file FILE");
    return kExitUsage;
  }
  if (folder.empty()) {
    reporter.Say("join: there is no place for the key: HOME is not set");
    return kExitUsage;
  }
  if (!token_file.empty()) {
    const absl::StatusOr<std::string> text = ReadTokenFile(token_file);
    if (!text.ok()) return ReportError(text.status(), reporter);
    token = *text;
  }
  const absl::StatusOr<Credentials> credentials = JoinAsUser(address, token, folder);
  if (!credentials.ok()) return ReportError(credentials.status(), reporter);
  return PrintResult(fmt::format("you are {} of cluster {} now, coordinator {}, until {}\n"
                                 "next: coordinator submit job.yaml\n",
                                 credentials->identity.name, credentials->identity.cluster_id,
                                 fmt::join(credentials->coordinators, ", "),
                                 FormatUtc(credentials->certificate.not_after())),
                     reporter);
}

}  // namespace muster
