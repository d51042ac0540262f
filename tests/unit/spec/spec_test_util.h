// Short forms for the tests of coordinator/spec: parse a text, look at the result as strings.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/config/diagnostics.h"
#include "coordinator/spec/env_file.h"
#include "coordinator/spec/hostfile.h"
#include "muster/v1/job.pb.h"

namespace muster {

// "node-1:8", with chosen slots "node-1:8[5,7]".
inline std::string ShowHost(const v1::HostEntry& host) {
  std::string text = fmt::format("{}:{}", host.host(), host.slot_count());
  if (host.selected_slots_size() > 0)
    text += fmt::format("[{}]", fmt::join(host.selected_slots(), ","));
  return text;
}

inline std::string ShowHosts(const std::vector<v1::HostEntry>& hosts) {
  std::vector<std::string> texts;
  for (const v1::HostEntry& host : hosts) texts.push_back(ShowHost(host));
  return fmt::format("{}", fmt::join(texts, " "));
}

// Hosts of a hostfile called `hosts`, or its errors, one per line.
inline std::string Hosts(std::string_view text) {
  Diagnostics diagnostics;
  const std::vector<v1::HostEntry> hosts = ParseHostfile(text, "hosts", diagnostics);
  return diagnostics.ok() ? ShowHosts(hosts) : diagnostics.ErrorText();
}

// Parts of a value: literal text as it is, `<NAME>` for a variable, `<~>` for the home directory.
inline std::string ShowValue(const v1::EnvAssignment& assignment) {
  std::string text;
  for (const v1::EnvPart& part : assignment.parts()) {
    if (part.has_home()) {
      text += "<~>";
    } else if (part.has_variable()) {
      text += "<" + part.variable() + ">";
    } else {
      text += part.literal();
    }
  }
  return text;
}

struct EnvResult {
  std::vector<v1::EnvAssignment> assignments;
  Diagnostics diagnostics;

  // "A=1|B=2"; or the errors.
  std::string Show() const {
    if (!diagnostics.ok()) return diagnostics.ErrorText();
    std::vector<std::string> texts;
    for (const v1::EnvAssignment& a : assignments) texts.push_back(a.name() + "=" + ShowValue(a));
    return fmt::format("{}", fmt::join(texts, "|"));
  }
  std::string Warnings() const {
    return fmt::format("{}", fmt::join(diagnostics.WarningTexts(), "\n"));
  }
};

inline EnvResult ParseEnv(std::string_view text) {
  EnvResult result;
  result.assignments = ParseEnvFile(text, ".env", v1::ENV_LAYER_ENV_FILE, result.diagnostics);
  return result;
}

}  // namespace muster
