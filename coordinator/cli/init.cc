#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "common/base/annotate.h"
#include "common/config/duration.h"
#include "common/crypto/encoding.h"
#include "common/io/state_lock.h"
#include "common/io/state_owner.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/exit_status.h"
#include "coordinator/daemon/service.h"
#include "coordinator/daemon/settings.h"
#include "coordinator/trust/trust_directory.h"

namespace muster {
namespace {

std::string HostName() {
  std::array<char, 256> name = {};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

int RunInit(Arguments arguments, Reporter& reporter) {
  TrustSetUp set_up;
  GivenFlags given;
  std::optional<std::string> file;
  Flags flags(
      "init [flags]",
      "Makes a cluster: its certificate authority, and the certificate of the coordinator.\n"
      "Once, on the machine of the coordinator, before `serve`. Nodes join with a token.");
  flags.Value(
      "state-dir", "DIR",
      [&given](std::string_view value) -> std::string {
        given["state_dir"] = {std::string(value)};
        return "";
      },
      fmt::format("the same as of `serve` (default {})", DefaultServiceOptions().state_directory));
  flags.Value(
      "host", "NAME",
      [&set_up](std::string_view value) -> std::string {
        if (value.empty()) return "must not be empty";
        set_up.hosts.emplace_back(value);
        return "";
      },
      "name or address under which nodes reach this machine; repeat for more (default: its host "
      "name)");
  flags.Value(
      "certificate-life", "TIME",
      [&set_up](std::string_view value) -> std::string {
        const absl::StatusOr<Duration> life = ParseDuration(value);
        if (!life.ok()) return std::string(MessageOf(life.status()));
        set_up.certificate_life = std::chrono::duration_cast<std::chrono::seconds>(*life);
        return "";
      },
      "how long certificates of nodes and of the coordinator are good, 10s to 365d; they renew "
      "theirs by themselves (default 14d)");
  AddConfigFlag(flags, &file);
  if (const std::optional<int> over = ParseOrReport(flags, arguments, reporter)) return *over;
  Diagnostics diagnostics;
  const std::string state_directory =
      CollectServiceSettings(given, file, diagnostics).options.state_directory;
  if (!diagnostics.ok()) {
    reporter.Say(diagnostics.ErrorText());
    return kExitUsage;
  }
  if (state_directory.empty()) {
    reporter.Say("there is no default place for the state here: give --state-dir DIR");
    return kExitUsage;
  }
  if (set_up.hosts.empty()) set_up.hosts.push_back(HostName());
  absl::Status status = BecomeOwnerOf(state_directory);
  if (status.ok()) status = MakeStateDirectory(state_directory);
  if (!status.ok()) return ReportError(status, reporter);
  const SystemClock clock;
  const std::string directory = TrustDirectoryOf(state_directory);
  const absl::StatusOr<Trust> trust = InitTrust(directory, set_up, clock.WallNow());
  if (!trust.ok()) return ReportError(trust.status(), reporter);
  return PrintResult(
      fmt::format("cluster      {}\n"
                  "authority    sha256:{}\n"
                  "certificates {} (mode 0700; a copy of it is the cluster: keep it safe)\n"
                  "hosts        {}\n"
                  "nodes        renew their certificates by themselves, each is good for {}\n"
                  "next: coordinator serve (or systemctl start muster-coordinator), coordinator "
                  "token create\n",
                  trust->cluster_id, HexEncode(trust->ca().SpkiSha256()), directory,
                  fmt::join(set_up.hosts, ", "), FormatDuration(trust->certificate_life)),
      reporter);
}

}  // namespace muster
