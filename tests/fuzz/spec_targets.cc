#include "tests/fuzz/spec_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "common/config/duration.h"
#include "common/config/settings.h"
#include "common/config/text.h"
#include "coordinator/spec/env_file.h"
#include "coordinator/spec/env_names.h"
#include "coordinator/spec/host_name.h"
#include "coordinator/spec/hostfile.h"
#include "coordinator/spec/job_yaml.h"
#include "coordinator/spec/selection.h"

namespace muster {
namespace {

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Messages are text of one line each and name a place in the file.
std::string CheckDiagnostics(const Diagnostics& diagnostics, std::string_view input) {
  const auto lines = std::count(input.begin(), input.end(), '\n') + 1;
  for (const auto* list : {&diagnostics.errors, &diagnostics.warnings}) {
    for (const Diagnostic& d : *list) {
      if (!IsUtf8(d.message)) return "a message is not UTF-8";
      if (std::any_of(d.message.begin(), d.message.end(),
                      [](unsigned char c) { return c < 0x20; })) {
        return "a message has control characters: " + Printable(d.message);
      }
      if (d.line < 0 || d.line > lines) return fmt::format("line {} of {}", d.line, lines);
    }
  }
  return {};
}

std::string CheckHosts(const std::vector<v1::HostEntry>& hosts) {
  if (hosts.size() > kMaxHosts) return "too many hosts";
  std::set<std::string> keys;
  uint64_t slots = 0;
  for (const v1::HostEntry& host : hosts) {
    if (host.host().empty() || Printable(host.host()) != host.host())
      return "a host name is not text";
    if (!keys.insert(HostKey(host.host())).second) return "a host twice: " + host.host();
    if (host.slot_count() > kMaxSlotsPerHost) return "too many slots";
    if (!std::is_sorted(host.selected_slots().begin(), host.selected_slots().end()))
      return "slots not sorted";
    slots += host.slot_count();
  }
  return slots > kMaxSlots ? "too many slots together" : "";
}

std::string CheckEnv(const v1::EnvAssignment& assignment) {
  if (!IsValidEnvName(assignment.name())) return "invalid name";
  if (IsLauncherOwned(assignment.name())) return "launcher-owned name";
  for (const v1::EnvPart& part : assignment.parts()) {
    if (part.literal().find('\0') != std::string::npos) return "NUL in a value";
    if (part.has_literal() && part.literal().empty()) return "empty part";
    if (part.has_variable() && !IsValidEnvName(part.variable())) return "invalid variable";
  }
  if (!IsUtf8(assignment.source())) return "source is not UTF-8";
  return {};
}

}  // namespace

std::string FuzzHostfile(std::string_view bytes) {
  Diagnostics diagnostics;
  const auto hosts = ParseHostfile(bytes, "hosts", diagnostics);
  if (std::string problem = CheckDiagnostics(diagnostics, bytes); !problem.empty()) return problem;
  if (!diagnostics.ok()) return {};
  if (hosts.empty()) return "no host and no error";
  if (std::string problem = CheckHosts(hosts); !problem.empty()) return problem;
  // Written out plainly, the hosts are read back in the same order with the same slots.
  std::string plain;
  for (const v1::HostEntry& host : hosts) {
    plain += host.host();
    if (host.slot_count() > 0) plain += fmt::format(" slots={}", host.slot_count());
    if (host.selected_slots_size() > 0)
      plain += fmt::format(" modules={}", fmt::join(host.selected_slots(), ","));
    if (!host.address().empty()) plain += " addr=" + host.address();
    plain += '\n';
  }
  const auto again = ParseHostfile(plain, "hosts", diagnostics);
  if (!diagnostics.ok()) return "plain form refused: " + diagnostics.ErrorText();
  const bool same = std::equal(hosts.begin(), hosts.end(), again.begin(), again.end(),
                               [](const v1::HostEntry& a, const v1::HostEntry& b) {
                                 return a.host() == b.host() && a.slot_count() == b.slot_count() &&
                                        a.address() == b.address();
                               });
  return same ? "" : "plain form differs";
}

std::string FuzzEnvFile(std::string_view bytes) {
  Diagnostics diagnostics;
  const auto env = ParseEnvFile(bytes, ".env", v1::ENV_LAYER_ENV_FILE, diagnostics);
  if (std::string problem = CheckDiagnostics(diagnostics, bytes); !problem.empty()) return problem;
  for (const v1::EnvAssignment& assignment : env) {
    if (std::string problem = CheckEnv(assignment); !problem.empty()) return problem;
    if (IsPerHost(assignment.name())) return "per-host name";
  }
  // The same bytes as a value survive quoting.
  if (bytes.find('\0') != std::string_view::npos) return {};
  Diagnostics quoted;
  const auto again =
      ParseEnvFile("X=" + QuoteEnvValue(bytes) + "\n", ".env", v1::ENV_LAYER_ENV_FILE, quoted);
  if (!quoted.ok() || !quoted.warnings.empty() || again.size() != 1) return "quoted value refused";
  if (again[0].parts_size() > 1) return "quoted value has parts";
  const std::string value = again[0].parts_size() == 0 ? "" : again[0].parts(0).literal();
  return value == bytes ? "" : "quoted value differs";
}

std::string FuzzJobYaml(std::string_view bytes) {
  Diagnostics diagnostics;
  const JobFile job = ParseJobYaml(bytes, "job.yaml", diagnostics);
  if (std::string problem = CheckDiagnostics(diagnostics, bytes); !problem.empty()) return problem;
  for (const v1::EnvAssignment& assignment : job.env) {
    if (std::string problem = CheckEnv(assignment); !problem.empty()) return problem;
  }
  if (!diagnostics.ok()) return {};
  const int programs = (job.script ? 1 : 0) + (job.module ? 1 : 0) + (job.command.empty() ? 0 : 1);
  if (programs != 1) return fmt::format("{} programs", programs);
  if (job.hostfile.has_value() == !job.hosts.empty()) return "hostfile and hosts";
  return CheckHosts(job.hosts);
}

std::string FuzzSelection(std::string_view bytes) {
  const size_t newline = std::min(bytes.find('\n'), bytes.size());
  const std::string_view text = bytes.substr(std::min(newline + 1, bytes.size()));
  Diagnostics diagnostics;
  const auto hosts = ParseHostfile(text, "hosts", diagnostics);
  if (!diagnostics.ok()) return {};
  for (const bool include : {true, false}) {
    Selection selection;
    (include ? selection.include : selection.exclude) = bytes.substr(0, newline);
    Diagnostics selected;
    const auto chosen = SelectHosts(hosts, selection, selected);
    if (std::string problem = CheckDiagnostics(selected, bytes); !problem.empty()) return problem;
    if (!selected.ok()) continue;
    if (chosen.empty()) return "nothing chosen and no error";
    if (std::string problem = CheckHosts(chosen); !problem.empty()) return problem;
    // Hostfile order: the chosen are a subsequence.
    auto at = hosts.begin();
    for (const v1::HostEntry& host : chosen) {
      at = std::find_if(at, hosts.end(),
                        [&](const v1::HostEntry& h) { return h.host() == host.host(); });
      if (at == hosts.end()) return "order changed";
      ++at;
    }
  }
  return {};
}

std::string FuzzDuration(std::string_view bytes) {
  const auto parsed = ParseDuration(bytes);
  if (!parsed.ok())
    return IsUtf8(std::string(parsed.status().message())) ? "" : "message is not UTF-8";
  if (*parsed < Duration::zero() || *parsed > kMaxDuration) return "out of range";
  const auto again = ParseDuration(FormatDuration(*parsed));
  if (!again.ok()) return "formatted duration refused";
  return *again == std::chrono::floor<std::chrono::milliseconds>(*parsed)
             ? ""
             : "formatted duration differs";
}

std::string FuzzSettings(std::string_view bytes) {
  using Kind = SettingKey::Kind;
  // Its messages repeat what they refuse, as those of the daemons do.
  const auto no_x = [](const std::string& value) {
    return value.starts_with("x") ? "not " + value : "";
  };
  const std::vector<SettingKey> keys = {{.name = "state_dir", .check = no_x},
                                        {.name = "listen", .check = no_x, .may_be_empty = true},
                                        {.name = "allow_root", .kind = Kind::kSwitch},
                                        {.name = "addresses", .kind = Kind::kList, .check = no_x}};
  Diagnostics diagnostics;
  Settings settings(keys);
  settings.GiveFile(bytes, "agent.yaml", diagnostics);
  if (std::string problem = CheckDiagnostics(diagnostics, bytes); !problem.empty()) return problem;
  if (!diagnostics.ok()) return {};
  // What is shown of it reads back to the same.
  const std::string shown = settings.Render();
  Settings again(keys);
  again.GiveFile(shown, "shown", diagnostics);
  if (!diagnostics.ok()) return "what is shown is refused: " + diagnostics.ErrorText();
  for (const SettingKey& key : keys) {
    if (again.List(key.name) != settings.List(key.name))
      return key.name + " reads back differently";
  }
  return {};
}

std::vector<FuzzTarget> SpecFuzzTargets() {
  return {{"hostfile", FuzzHostfile},   {"env_file", FuzzEnvFile},  {"job_yaml", FuzzJobYaml},
          {"selection", FuzzSelection}, {"duration", FuzzDuration}, {"settings", FuzzSettings}};
}

}  // namespace muster
