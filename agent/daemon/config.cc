#include "agent/daemon/config.h"

#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "agent/node/allow_list.h"
#include "agent/node/facts.h"
#include "agent/node/host_names.h"
#include "common/base/annotate.h"
#include "common/base/version.h"
#include "common/io/account.h"
#include "common/rpc/channel.h"

namespace muster {
namespace {

constexpr int kBadUsage = 2;
constexpr char kAllowFile[] = "/etc/muster/allow_users";

// `--state_dir` is `--state-dir`. What follows `=` is a value and stays as it is.
std::string WithDashes(std::string argument) {
  if (argument.rfind("--", 0) != 0) return argument;
  const size_t end = std::min(argument.find('='), argument.size());
  std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return argument;
}

std::string OwnDirectory() {
  std::array<char, 4096> path;
  const ssize_t got = ::readlink("/proc/self/exe", path.data(), path.size());
  if (got <= 0) return "";
  const std::string_view full(path.data(), static_cast<size_t>(got));
  return std::string(full.substr(0, full.rfind('/')));
}

std::string HomeDirectory(const std::vector<std::string>& environment) {
  if (const auto home = FindVariable(environment, "HOME"); home && !home->empty()) return *home;
  std::array<char, 16384> buffer;
  passwd entry = {};
  passwd* found = nullptr;
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr) {
    return found->pw_dir;
  }
  return "/";
}

std::string DefaultStateDirectory(const std::vector<std::string>& environment,
                                  const std::string& home) {
  // Set by systemd for StateDirectory=.
  if (const auto set = FindVariable(environment, "STATE_DIRECTORY"); set && !set->empty()) {
    return set->substr(0, set->find(':'));
  }
  if (::geteuid() == 0) return "/var/lib/muster/agent";
  if (const auto state = FindVariable(environment, "XDG_STATE_HOME");
      state && state->starts_with("/")) {
    return *state + "/muster/agent";
  }
  return home + "/.local/state/muster/agent";
}

absl::Status CheckNodeId(const std::string& id) {
  const bool plain =
      std::all_of(id.begin(), id.end(), [](unsigned char c) { return c > ' ' && c != 0x7f; });
  if (id.empty() || id.size() > 253 || !plain) {
    return absl::InvalidArgumentError(
        "--node-id: must be 1 to 253 characters without blanks and control characters");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> MakeAbsolute(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("--state-dir: must not be empty");
  if (path.front() == '/') return path;
  std::array<char, 4096> directory;
  if (::getcwd(directory.data(), directory.size()) == nullptr) {
    return ErrnoStatus(errno, "--state-dir: the working directory cannot be told");
  }
  return fmt::format("{}/{}", directory.data(), path);
}

std::string NameOfHost(std::string_view host) {
  std::string name;
  for (const char c : host.substr(0, host.find('.'))) {
    name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return name;
}

absl::Status Complete(AgentConfig* config, const std::optional<std::string>& slots) {
  const std::vector<std::string>& environment = config->environ;
  config->home = HomeDirectory(environment);
  // Members have the name that they joined under.
  const bool local = IsUnixTarget(config->coordinator);
  if (config->node_id.empty() && local) config->node_id = NodeId(KernelHostname());
  absl::Status status =
      config->node_id.empty() ? absl::OkStatus() : CheckNodeId(config->node_id.value());
  if (!config->coordinator.empty()) status.Update(CheckTarget(config->coordinator));
  if (config->state_directory.empty()) {
    config->state_directory = DefaultStateDirectory(environment, config->home);
  }
  const absl::StatusOr<std::string> directory = MakeAbsolute(config->state_directory);
  status.Update(directory.status());
  if (directory.ok()) config->state_directory = *directory;
  const absl::StatusOr<uint32_t> count =
      DecideSlots(slots, FindVariable(environment, "MUSTER_SLOTS"));
  status.Update(count.status());
  if (count.ok()) config->slots = *count;
  for (const std::string& address : config->addresses) status.Update(CheckNumericAddress(address));
  if (config->allow_file.empty()) config->allow_file = kAllowFile;
  for (const std::string& user : config->allowed_users) {
    if (IsAccountName(user)) continue;
    status.Update(absl::InvalidArgumentError(
        fmt::format("--allow-user: the name of a user expected, got \"{}\"", user)));
  }
  config->lease_directory = FindVariable(environment, "MUSTER_LEASE_DIR").value_or("");
  const std::string programs = FindVariable(environment, "MUSTER_BIN_DIR").value_or("");
  config->shim_binary = (programs.empty() ? OwnDirectory() : programs) + "/muster-shim";
  if (const auto fake = FindVariable(environment, "FAKE_UNKILLABLE_RANK"); fake && !fake->empty()) {
    uint32_t rank = 0;
    const auto result = std::from_chars(fake->data(), fake->data() + fake->size(), rank);
    if (result.ec != std::errc() || result.ptr != fake->data() + fake->size()) {
      status.Update(absl::InvalidArgumentError("FAKE_UNKILLABLE_RANK: must be a rank"));
    }
    config->fake_unkillable_rank = rank;
  }
  return status;
}

}  // namespace

std::optional<std::string> FindVariable(const std::vector<std::string>& environment,
                                        const std::string& name) {
  const std::string prefix = name + "=";
  for (const std::string& one : environment) {
    if (one.starts_with(prefix)) return one.substr(prefix.size());
  }
  return std::nullopt;
}

CommandLine ParseCommandLine(int argc, const char* const* argv, const char* const* environment) {
  CommandLine line;
  AgentConfig& config = line.config;
  for (const char* const* one = environment; *one != nullptr; ++one)
    config.environ.emplace_back(*one);

  CLI::App app(
      "Starts and supervises the ranks of training jobs on this node, as its coordinator says.",
      "agent");
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("agent {}", kVersion));
  std::string node_id;
  std::string slots;
  CLI::App* run = app.add_subcommand("run", "Serve this node");
  run->add_option("--node-id", node_id, "Name of the node (default: the host name)");
  run->add_option("--coordinator", config.coordinator,
                  "Where the coordinator listens: HOST:PORT, or unix:/path on its own machine "
                  "(default: as told when the node joined)");
  run->add_option("--state-dir", config.state_directory,
                  "Directory of the agent's journal and of its attempts");
  run->add_option("--slots", slots, "Slots to offer (default: MUSTER_SLOTS, else 8)");
  run->add_option("--address", config.addresses,
                  "Address to report; repeat for more (default: all)")
      ->allow_extra_args(false);
  bool allow_root = false;
  run->add_option("--allow-users", config.allow_file,
                  "File of the users that jobs may run as here, when this agent is root and serves "
                  "a cluster: a user, @GROUP or * on each line (default: /etc/muster/allow_users)");
  run->add_option("--allow-user", config.allowed_users,
                  "One more user that jobs may run as here; repeat for more")
      ->allow_extra_args(false);
  run->add_flag("--allow-root", allow_root,
                "As --allow-user root: an admin of the cluster is root here");
  run->add_flag("--ephemeral", config.ephemeral,
                "End with the coordinator, and take the ranks along");

  JoinConfig joined;
  CLI::App* join = app.add_subcommand("join", "Make this machine a node of a cluster");
  join->add_option("ADDRESS", joined.address, "HOST:PORT of the coordinator")->required();
  CLI::Option* token =
      join->add_option("TOKEN", joined.token,
                       "From `coordinator token create`; others can see it in the list of "
                       "processes: --token-file is better on shared machines");
  join->add_option("--token-file", joined.token_file,
                   "File that holds the token; -: standard input")
      ->excludes(token);
  join->add_option("--node-id", node_id, "Name of the node (default: the host name)");
  join->add_option("--state-dir", config.state_directory, "The same as of `agent run`");

  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) arguments.push_back(WithDashes(argv[i]));
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::Success& request) {
    // --help or --version.
    line.text =
        request.get_name() == "CallForVersion" ? std::string(request.what()) + "\n" : app.help();
    if (run->parsed()) line.text = run->help("agent");
    if (join->parsed()) line.text = join->help("agent");
    return line;
  } catch (const CLI::ParseError& error) {
    line.text = fmt::format("agent: {} (see agent --help)\n", error.what());
    line.error = true;
    line.exit_code = kBadUsage;
    return line;
  }
  if (join->parsed()) {
    if (joined.token.empty() && joined.token_file.empty()) {
      line.text = "agent: join: give the token, or --token-file FILE\n";
      line.error = true;
      line.exit_code = kBadUsage;
      return line;
    }
    // A name in lower case, up to the first dot, as certificates have them.
    joined.node_id = NodeId(node_id.empty() ? NameOfHost(KernelHostname()) : node_id);
  }
  if (allow_root) config.allowed_users.push_back(AccountName(0));
  if (!node_id.empty() || run->count("--node-id") > 0) config.node_id = NodeId(node_id);
  const bool empty_id = run->count("--node-id") > 0 && node_id.empty();
  absl::Status status = empty_id ? CheckNodeId(node_id) : absl::OkStatus();
  const bool has_slots = run->count("--slots") > 0;
  status.Update(Complete(&config, has_slots ? std::optional(slots) : std::nullopt));
  if (!status.ok()) {
    line.text = fmt::format("agent: {}\n", MessageOf(status));
    line.error = true;
    line.exit_code = kBadUsage;
  } else if (join->parsed()) {
    joined.state_directory = config.state_directory;
    line.join = std::move(joined);
  }
  return line;
}

}  // namespace muster
