#include "agent/supervise/job_scope.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster {
namespace {

constexpr std::string_view kSliceSuffix = ".slice";
constexpr size_t kMostUnitNameBytes = 255;
constexpr size_t kMostDescriptionBytes = 256;

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == ':' ||
         c == '_' || c == '.';
}

std::string EscapeUnitName(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (IsPlain(c) || c == '-') {
      escaped += c;
    } else {
      escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return escaped;
}

}  // namespace

std::string ScopeUnitName(const AttemptId& attempt) {
  return fmt::format("muster-job-{}-{}.scope", EscapeUnitName(attempt.job.value()),
                     attempt.attempt);
}

std::string ScopeDescription(std::string_view holder, uint32_t attempt) {
  std::string text;
  for (const char c : holder.substr(0, kMostDescriptionBytes)) {
    // Names in other scripts are valid UTF-8 as a rule, but a bad byte would cost the whole scope.
    text += c >= ' ' && c < 0x7f ? c : '?';
  }
  return fmt::format("Muster: {}{}attempt {}", text, text.empty() ? "" : ", ", attempt);
}

bool IsSliceName(std::string_view name) {
  if (!name.ends_with(kSliceSuffix) || name.size() > kMostUnitNameBytes) return false;
  name.remove_suffix(kSliceSuffix.size());
  if (name.empty() || name.front() == '-' || name.back() == '-') return false;
  // A leading dot would hide the directory, and ".." leave it.
  if (name.front() == '.' || name.find("--") != std::string_view::npos) return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return IsPlain(c) || c == '-'; });
}

std::string SliceCgroup(std::string_view slice) {
  const std::string_view stem = slice.substr(0, slice.size() - kSliceSuffix.size());
  std::string path;
  for (size_t end = stem.find('-');; end = stem.find('-', end + 1)) {
    path += fmt::format("/{}{}", stem.substr(0, end), kSliceSuffix);
    if (end == std::string_view::npos) return path;
  }
}

bool IsSystemService(std::string_view cgroup_path) {
  // Managers of users, and what they run, are below user.slice/user-N.slice/user@N.service.
  return cgroup_path.ends_with(".service") && !cgroup_path.starts_with("/user.slice/") &&
         cgroup_path.find("/user@") == std::string_view::npos;
}

bool IsStartedBySystemd(const std::vector<std::string>& environment, pid_t pid) {
  // The first one is there since version 248, the other one where the unit has a watchdog.
  return std::any_of(environment.begin(), environment.end(), [&](const std::string& one) {
    return one == fmt::format("SYSTEMD_EXEC_PID={}", pid) ||
           one == fmt::format("WATCHDOG_PID={}", pid);
  });
}

}  // namespace muster
