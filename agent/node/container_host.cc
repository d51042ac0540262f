#include "agent/node/container_host.h"

#include <dirent.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

namespace muster {
namespace {

// Where the engines look for the program that `--init` starts.
constexpr std::array<const char*, 3> kPodmanInits = {
    "/usr/libexec/podman/catatonit", "/usr/local/libexec/podman/catatonit", "/usr/bin/catatonit"};
constexpr std::array<const char*, 3> kDockerInits = {
    "/usr/libexec/docker/docker-init", "/usr/lib/docker/docker-init", "/usr/local/bin/docker-init"};

bool IsProgram(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::string FindProgram(std::string_view search, std::string_view name) {
  while (true) {
    const size_t end = std::min(search.find(':'), search.size());
    const std::string_view folder = search.substr(0, end);
    // What is relative means another place for every reader.
    if (folder.starts_with('/')) {
      std::string path = std::string(folder) + "/" + std::string(name);
      if (IsProgram(path)) return path;
    }
    if (end == search.size()) return "";
    search.remove_prefix(end + 1);
  }
}

template <size_t N>
bool AnyProgram(const std::array<const char*, N>& paths) {
  return std::any_of(paths.begin(), paths.end(), [](const char* path) { return IsProgram(path); });
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

void AddDeviceNodes(const std::string& folder, std::string_view prefix,
                    std::vector<std::string>& nodes) {
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(folder.c_str()));
  if (!directory) return;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(prefix)) nodes.push_back(folder + "/" + std::string(name));
  }
}

uint64_t HardLimit(__rlimit_resource resource) {
  struct rlimit limit = {};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return kNoLimit;
  return limit.rlim_max;
}

bool MayRaiseLimits() {
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2] = {};
  return ::syscall(SYS_capget, &header, data) == 0 &&
         (data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective & CAP_TO_MASK(CAP_SYS_RESOURCE)) != 0;
}

}  // namespace

ContainerHost LookForEngines(const std::vector<std::string>& environ, const std::string& sysroot) {
  std::string_view search = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& variable : environ) {
    if (!variable.starts_with("PATH=")) continue;
    search = std::string_view(variable).substr(5);
    break;
  }
  ContainerHost host;
  host.docker.program = FindProgram(search, "docker");
  host.docker.has_init = AnyProgram(kDockerInits) || !FindProgram(search, "docker-init").empty();
  host.podman.program = FindProgram(search, "podman");
  host.podman.has_init = AnyProgram(kPodmanInits);
  host.sysroot = sysroot;
  AddDeviceNodes(sysroot + "/dev/accel", "accel", host.device_nodes);
  AddDeviceNodes(sysroot + "/dev/infiniband", "uverbs", host.device_nodes);
  std::sort(host.device_nodes.begin(), host.device_nodes.end());
  host.open_files = HardLimit(RLIMIT_NOFILE);
  host.locked_bytes = HardLimit(RLIMIT_MEMLOCK);
  host.may_raise_limits = MayRaiseLimits();
  return host;
}

}  // namespace muster
