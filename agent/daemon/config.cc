#include "agent/daemon/config.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

#include "agent/daemon/flags.h"
#include "agent/node/allow_list.h"
#include "agent/node/facts.h"
#include "agent/node/host_names.h"
#include "agent/supervise/job_scope.h"
#include "common/base/annotate.h"
#include "common/config/settings.h"
#include "common/config/text.h"
#include "common/io/account.h"
#include "common/io/config_file.h"
#include "common/log/log.h"
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
  // Homes are often shared by all nodes; the state of an agent is that of one machine.
  return fmt::format("{}/.local/state/muster/agent/{}", home, KernelHostname());
}

std::string CheckNodeId(const std::string& id) {
  const bool plain =
      std::all_of(id.begin(), id.end(), [](unsigned char c) { return c > ' ' && c != 0x7f; });
  if (id.size() <= 253 && plain) return "";
  return "must be 1 to 253 characters without blanks and control characters";
}

std::string MessageIn(const absl::Status& status) { return std::string(MessageOf(status)); }

std::vector<SettingKey> Keys() {
  using Kind = SettingKey::Kind;
  return {
      {.name = "node_id", .check = CheckNodeId},
      {.name = "coordinator",
       .check = [](const std::string& target) { return MessageIn(CheckTarget(target)); },
       .may_be_empty = true},
      {.name = "state_dir"},
      {.name = "slots",
       .check = [](const std::string& text) { return MessageIn(ParseSlots(text).status()); }},
      {.name = "devices",
       .check =
           [](const std::string& mode) {
             return mode == "auto" || mode == "gaudi" || mode == "none"
                        ? ""
                        : fmt::format("expected auto, gaudi or none, got '{}'", mode);
           }},
      {.name = "sysroot", .may_be_empty = true},
      {.name = "addresses",
       .kind = Kind::kList,
       .check = [](const std::string& text) { return MessageIn(CheckNumericAddress(text)); }},
      {.name = "allow_users_file"},
      {.name = "allow_users",
       .kind = Kind::kList,
       .check =
           [](const std::string& user) {
             return IsAccountName(user)
                        ? ""
                        : fmt::format("the name of a user expected, got '{}'", user);
           }},
      {.name = "allow_root", .kind = Kind::kSwitch},
      {.name = "job_slice",
       .check =
           [](const std::string& slice) {
             return slice.empty() || IsSliceName(slice)
                        ? ""
                        : fmt::format("the name of a slice of systemd expected, got '{}'", slice);
           },
       .may_be_empty = true},
      {.name = "log",
       .check =
           [](const std::string& level) {
             return IsLogLevel(level) ? "" : fmt::format("expected {}", kLogLevels);
           }},
  };
}

absl::StatusOr<std::string> MakeAbsolute(const std::string& path) {
  // Empty: reported as a setting.
  if (path.empty() || path.front() == '/') return path;
  std::array<char, 4096> directory;
  if (::getcwd(directory.data(), directory.size()) == nullptr) {
    return ErrnoStatus(errno, "the working directory cannot be told");
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

// Beside the agent, where a build has it, else where a package has it: /usr/libexec/muster for
// /usr/bin.
std::string FindShim(const std::string& own_directory) {
  const std::string beside = own_directory + "/muster-shim";
  const std::string installed =
      own_directory.substr(0, own_directory.rfind('/')) + "/libexec/muster/muster-shim";
  if (::access(beside.c_str(), X_OK) != 0 && ::access(installed.c_str(), X_OK) == 0) {
    return installed;
  }
  return beside;
}

// The settings, from the weightiest to the lightest, and the file that some are from; all that is
// wrong with them is in `diagnostics`.
Settings Collect(const AgentFlags& flags, const std::vector<std::string>& environment,
                 const std::string& home, std::string* file, Diagnostics& diagnostics) {
  Settings settings(Keys());
  const std::pair<const char*, const char*> of_flags[] = {
      {"node_id", "node-id"},        {"coordinator", "coordinator"},
      {"state_dir", "state-dir"},    {"slots", "slots"},
      {"devices", "devices"},        {"sysroot", "sysroot"},
      {"addresses", "address"},      {"allow_users_file", "allow-users"},
      {"allow_users", "allow-user"}, {"allow_root", "allow-root"}};
  for (const auto& [key, flag] : of_flags) {
    if (flags.Has(flag)) {
      settings.Give(key, flags.Given(flag), {fmt::format("--{}", flag), 0}, diagnostics);
    }
  }
  const auto variable = [&](const char* name) {
    return FindVariable(environment, name).value_or("");
  };
  // An empty variable is the usual way to unset one in a unit file.
  if (const std::string slots = variable("MUSTER_SLOTS"); !slots.empty()) {
    settings.Give("slots", {slots}, {"MUSTER_SLOTS", 0}, diagnostics);
  }
  if (const std::string root = variable("MUSTER_SYSROOT"); !root.empty()) {
    settings.Give("sysroot", {root}, {"MUSTER_SYSROOT", 0}, diagnostics);
  }
  // An unknown level is not worth failing for: SetUpLog warns of it.
  if (const std::string level = variable("MUSTER_LOG"); IsLogLevel(level)) {
    settings.Give("log", {level}, {"MUSTER_LOG", 0}, diagnostics);
  }
  // The agent of a single job is told everything by flags.
  if (flags.Has("config")) {
    *file = flags.Given("config").front();
  } else if (!flags.ephemeral) {
    *file = FindConfigFile("agent.yaml", variable);
  }
  if (!file->empty()) {
    const absl::StatusOr<std::string> text = ReadConfigFile(*file, kMaxSettingsBytes);
    if (text.ok()) {
      settings.GiveFile(*text, *file, diagnostics);
    } else {
      diagnostics.Error(*file, 0, MessageIn(text.status()));
    }
  }
  // Members have the name that they joined under.
  if (IsUnixTarget(settings.Text("coordinator"))) {
    settings.Give("node_id", {KernelHostname()}, {"name of this machine", 0}, diagnostics);
  }
  // The agent that joins for one job has one of its own, made when it starts.
  if (!flags.ephemeral || flags.joined.address.empty()) {
    settings.Give("state_dir", {DefaultStateDirectory(environment, home)}, {"default", 0},
                  diagnostics);
  }
  for (const auto& [key, value] : {std::pair("slots", "8"),
                                   {"devices", "auto"},
                                   {"sysroot", ""},
                                   {"coordinator", ""},
                                   {"allow_users_file", kAllowFile},
                                   {"allow_root", "false"},
                                   {"job_slice", kDefaultJobSlice},
                                   {"log", "info"}}) {
    settings.Give(key, {value}, {"default", 0}, diagnostics);
  }
  return settings;
}

// What is not a setting.
void Complete(AgentConfig* config, Diagnostics& diagnostics) {
  const std::vector<std::string>& environment = config->environ;
  config->lease_directory = FindVariable(environment, "MUSTER_LEASE_DIR").value_or("");
  const std::string programs = FindVariable(environment, "MUSTER_BIN_DIR").value_or("");
  config->shim_binary = programs.empty() ? FindShim(OwnDirectory()) : programs + "/muster-shim";
  if (const auto fake = FindVariable(environment, "FAKE_UNKILLABLE_RANK"); fake && !fake->empty()) {
    uint32_t rank = 0;
    const auto result = std::from_chars(fake->data(), fake->data() + fake->size(), rank);
    if (result.ec != std::errc() || result.ptr != fake->data() + fake->size()) {
      diagnostics.Error("FAKE_UNKILLABLE_RANK", 0, "must be a rank");
    }
    config->fake_unkillable_rank = rank;
  }
}

CommandLine Answer(std::string text) {
  CommandLine line;
  line.text = std::move(text);
  return line;
}

CommandLine Refuse(std::string_view text) {
  CommandLine line = Answer(fmt::format("agent: {}\n", text));
  line.error = true;
  line.exit_code = kBadUsage;
  return line;
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
  AgentFlags flags;
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) arguments.push_back(WithDashes(argv[i]));
  std::reverse(arguments.begin(), arguments.end());
  try {
    flags.app.parse(arguments);
  } catch (const CLI::Success& request) {
    // --help or --version.
    if (request.get_name() == "CallForVersion") return Answer(std::string(request.what()) + "\n");
    if (flags.doctor->parsed()) return Answer(flags.doctor->help("agent"));
    if (flags.run->parsed()) return Answer(flags.run->help("agent"));
    return Answer(flags.join->parsed() ? flags.join->help("agent") : flags.app.help());
  } catch (const CLI::ParseError& error) {
    return Refuse(fmt::format("{} (see agent --help)", error.what()));
  }
  if (flags.join->parsed() && flags.joined.token.empty() && flags.joined.token_file.empty()) {
    return Refuse("join: give the token, or --token-file FILE");
  }
  if (flags.run->parsed() && flags.joined.address.empty() != flags.joined.token_file.empty()) {
    return Refuse("run: --join ADDRESS and --token-file FILE go together");
  }

  CommandLine line;
  AgentConfig& config = line.config;
  for (const char* const* one = environment; *one != nullptr; ++one)
    config.environ.emplace_back(*one);
  config.home = HomeDirectory(config.environ);
  Diagnostics diagnostics;
  std::string file;
  const Settings settings = Collect(flags, config.environ, config.home, &file, diagnostics);
  Complete(&config, diagnostics);
  const absl::StatusOr<std::string> directory = MakeAbsolute(settings.Text("state_dir"));
  if (!directory.ok()) diagnostics.Error("state_dir", 0, MessageIn(directory.status()));
  const absl::StatusOr<std::string> sysroot = MakeAbsolute(settings.Text("sysroot"));
  if (!sysroot.ok()) diagnostics.Error("sysroot", 0, MessageIn(sysroot.status()));
  if (sysroot.ok() && !sysroot->empty() && ::access((*sysroot + "/.").c_str(), R_OK | X_OK) != 0) {
    const int reason = errno;
    diagnostics.Error(
        settings.OriginOf("sysroot"), 0,
        fmt::format("'{}' {}: name the folder of a simulated node, or leave it out to use the "
                    "cards of this machine",
                    Printable(*sysroot),
                    reason == ENOENT    ? "does not exist"
                    : reason == ENOTDIR ? "is not a folder"
                                        : fmt::format("cannot be read ({})",
                                                      MessageIn(ErrnoStatus(reason, "open")))));
  }
  if (!diagnostics.ok()) return Refuse(diagnostics.ErrorText());

  config.node_id = NodeId(settings.Text("node_id"));
  config.coordinator = settings.Text("coordinator");
  config.state_directory = *directory;
  config.slots = *ParseSlots(settings.Text("slots"));
  config.devices = settings.Text("devices");
  config.sysroot = *sysroot;
  config.addresses = settings.List("addresses");
  config.allow_file = settings.Text("allow_users_file");
  config.allowed_users = settings.List("allow_users");
  if (settings.Switch("allow_root")) config.allowed_users.push_back(AccountName(0));
  config.job_slice = settings.Text("job_slice");
  config.log_level = settings.Text("log");
  config.ephemeral = flags.ephemeral;
  if (flags.check_config) {
    return Answer(fmt::format("# configuration file: {}\n{}", file.empty() ? "none" : file,
                              settings.Render()));
  }
  JoinConfig join = flags.joined;
  // A name in lower case, up to the first dot, as certificates have them.
  join.node_id = config.node_id.empty() ? NodeId(NameOfHost(KernelHostname())) : config.node_id;
  join.state_directory = config.state_directory;
  if (flags.join->parsed()) {
    line.join = std::move(join);
  } else if (flags.doctor->parsed()) {
    line.doctor = true;
    line.json = flags.output == "json";
  } else if (!join.address.empty()) {
    config.first_join = std::move(join);
  }
  return line;
}

}  // namespace muster
