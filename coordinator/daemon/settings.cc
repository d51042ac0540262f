#include "coordinator/daemon/settings.h"

#include <fmt/format.h>
#include <grp.h>
#include <stdlib.h>

#include <utility>

#include "common/base/annotate.h"
#include "common/config/duration.h"
#include "common/config/text.h"
#include "common/io/config_file.h"
#include "common/log/log.h"
#include "common/rpc/channel.h"

namespace muster {
namespace {

std::string EnvironmentVariable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

// Nothing: there is no such group.
std::optional<gid_t> GroupNumber(const std::string& name) {
  const group* const found = name.empty() ? nullptr : ::getgrnam(name.c_str());
  if (found == nullptr) return std::nullopt;
  return found->gr_gid;
}

std::string CheckAddress(const std::string& address) {
  return std::string(MessageOf(CheckTarget(address)));
}

// Without a host: every address of the machine.
std::string CheckListen(const std::string& address) {
  const std::string whole = address.starts_with(":") ? "0.0.0.0" + address : address;
  if (!IsUnixTarget(whole) && CheckTarget(whole).ok()) return "";
  return fmt::format("'{}' is no address to listen on: expected HOST:PORT, [IPv6]:PORT or :PORT",
                     address);
}

constexpr uint64_t kMostCounted = 1'000'000'000;

std::string CheckCount(const std::string& text) {
  if (ParseNumber(text, kMostCounted).has_value()) return "";
  return fmt::format("'{}' is no number from 0 to {} (0: no limit)", text, kMostCounted);
}

uint64_t CountOf(const std::string& text) { return ParseNumber(text, kMostCounted).value_or(0); }

std::string CheckSwitch(const std::string& text) {
  if (text == "true" || text == "false") return "";
  return fmt::format("'{}' is neither true nor false", text);
}

std::vector<SettingKey> Keys() {
  return {
      {.name = "state_dir"},
      {.name = "socket"},
      {.name = "socket_group",
       .check =
           [](const std::string& name) {
             return GroupNumber(name) ? "" : fmt::format("there is no group '{}'", name);
           }},
      {.name = "listen", .check = CheckListen, .may_be_empty = true},
      {.name = "advertise", .kind = SettingKey::Kind::kList, .check = CheckAddress},
      {.name = "max_jobs_per_user", .check = CheckCount},
      {.name = "max_ranks_per_user", .check = CheckCount},
      {.name = "probe_rendezvous", .check = CheckSwitch},
      {.name = "telemetry_interval",
       .check =
           [](const std::string& text) {
             return std::string(MessageOf(ParseDuration(text).status()));
           }},
      {.name = "log",
       .check =
           [](const std::string& level) {
             return IsLogLevel(level) ? "" : fmt::format("expected {}", kLogLevels);
           }},
  };
}

}  // namespace

ServiceSettings CollectServiceSettings(const GivenFlags& flags,
                                       const std::optional<std::string>& file,
                                       Diagnostics& diagnostics) {
  ServiceSettings result;
  Settings settings(Keys());
  for (const auto& [key, values] : flags) {
    std::string flag = "--" + key;
    for (char& c : flag) c = c == '_' ? '-' : c;
    settings.Give(key, values, {flag, 0}, diagnostics);
  }
  // An unknown level is not worth failing for: SetUpLog warns of it.
  if (const std::string level = EnvironmentVariable("MUSTER_LOG"); IsLogLevel(level)) {
    settings.Give("log", {level}, {"MUSTER_LOG", 0}, diagnostics);
  }
  result.file = file ? *file : FindConfigFile("coordinator.yaml", EnvironmentVariable);
  if (!result.file.empty()) {
    const absl::StatusOr<std::string> text = ReadConfigFile(result.file, kMaxSettingsBytes);
    if (text.ok()) {
      settings.GiveFile(*text, result.file, diagnostics);
    } else {
      diagnostics.Error(result.file, 0, std::string(MessageOf(text.status())));
    }
  }
  const ServiceOptions defaults = DefaultServiceOptions();
  for (const auto& [key, value] :
       {std::pair("state_dir", defaults.state_directory),
        {"socket", defaults.socket},
        {"listen", defaults.listen},
        {"max_jobs_per_user", fmt::to_string(defaults.user_limits.jobs)},
        {"max_ranks_per_user", fmt::to_string(defaults.user_limits.ranks)},
        {"probe_rendezvous", "true"},
        {"telemetry_interval", "10s"},
        {"log", "info"}}) {
    // Not everybody has a default place for the first two.
    if (!value.empty()) settings.Give(key, {value}, {"default", 0}, diagnostics);
  }
  result.options = {
      .state_directory = settings.Text("state_dir"),
      .socket = settings.Text("socket"),
      .socket_group = GroupNumber(settings.Text("socket_group")),
      .listen = settings.Text("listen"),
      .advertised = settings.List("advertise"),
      .probe_rendezvous = settings.Text("probe_rendezvous") != "false",
      .telemetry_interval =
          ParseDuration(settings.Text("telemetry_interval")).value_or(defaults.telemetry_interval),
      .user_limits = {.jobs = CountOf(settings.Text("max_jobs_per_user")),
                      .ranks = CountOf(settings.Text("max_ranks_per_user"))}};
  result.log_level = settings.Text("log");
  result.shown = fmt::format("# configuration file: {}\n{}",
                             result.file.empty() ? "none" : result.file, settings.Render());
  return result;
}

}  // namespace muster
