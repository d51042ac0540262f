#include "coordinator/cli/client_env.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

namespace muster {
namespace {

// The shell's spelling of the working directory when it is right. On clusters with automounted
// homes it is the one that other machines know too.
std::string WorkingDirectory(std::optional<std::string_view> pwd) {
  if (pwd && pwd->starts_with('/')) {
    struct stat named {};
    struct stat here {};
    if (stat(std::string(*pwd).c_str(), &named) == 0 && stat(".", &here) == 0 &&
        named.st_dev == here.st_dev && named.st_ino == here.st_ino) {
      return std::string(*pwd);
    }
  }
  std::string buffer(PATH_MAX, '\0');
  return getcwd(buffer.data(), buffer.size()) != nullptr ? std::string(buffer.c_str()) : "";
}

}  // namespace

std::optional<std::string_view> ClientEnv::Get(std::string_view name) const {
  for (const auto& [key, value] : environ) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::string ClientEnv::Absolute(std::string_view path) const {
  if (path == "~") return home;
  if (path.starts_with("~/") && !home.empty()) return JoinPath(home, path.substr(2));
  return JoinPath(cwd, path);
}

absl::StatusOr<ClientEnv> ReadClientEnv() {
  ClientEnv client;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    client.environ.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  client.cwd = WorkingDirectory(client.Get("PWD"));
  if (client.cwd.empty()) {
    return absl::FailedPreconditionError(
        "the working directory does not exist any more: change to another folder first");
  }
  const passwd* account = getpwuid(geteuid());
  client.user = account != nullptr ? account->pw_name : std::to_string(geteuid());
  const std::optional<std::string_view> home = client.Get("HOME");
  if (home && !home->empty()) {
    client.home = std::string(*home);
  } else if (account != nullptr) {
    client.home = account->pw_dir;
  }
  return client;
}

std::string JoinPath(std::string_view base, std::string_view path) {
  std::string joined(path.starts_with('/') ? "" : base);
  if (!joined.empty()) joined += '/';
  joined += path;
  std::string out;
  for (size_t begin = 0; begin < joined.size();) {
    const size_t end = std::min(joined.find('/', begin), joined.size());
    const std::string_view component = std::string_view(joined).substr(begin, end - begin);
    begin = end + 1;
    if (component.empty() || component == ".") continue;
    if (!out.empty() || joined.starts_with('/')) out += '/';
    out += component;
  }
  if (out.empty()) out = joined.starts_with('/') ? "/" : ".";
  return out;
}

std::string FolderOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

}  // namespace muster
