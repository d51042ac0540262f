#include "agent/checks/check_context.h"

#include <dirent.h>
#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/core/compose.h"
#include "agent/core/container.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

constexpr size_t kMaxFileBytes = 64 * 1024;

void TakeLimit(const std::optional<uint64_t>& given, rlimit& limit) {
  if (!given) return;
  limit.rlim_max = *given == kNoLimit ? RLIM_INFINITY : static_cast<rlim_t>(*given);
  limit.rlim_cur = limit.rlim_max;
}

}  // namespace

std::string_view CheckContext::Env(std::string_view name) const {
  const auto found = env.find(name);
  return found == env.end() ? std::string_view() : std::string_view(found->second);
}

bool CheckContext::EnvIsOn(std::string_view name) const {
  const std::string value(Env(name));
  for (const char* on : {"1", "y", "yes", "true", "on"}) {
    if (::strcasecmp(value.c_str(), on) == 0) return true;
  }
  return false;
}

std::optional<std::string> CheckContext::Read(std::string_view path) const {
  const std::string full = sysroot + std::string(path);
  const UniqueFd fd(::open(full.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return std::nullopt;
  std::string text(kMaxFileBytes, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(fd.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  text.resize(size);
  return text;
}

std::string CheckContext::ReadLine(std::string_view path) const {
  std::string text = Read(path).value_or("");
  constexpr std::string_view kBlank = " \t\r\n";
  text.erase(text.find_last_not_of(kBlank) + 1);
  text.erase(0, text.find_first_not_of(kBlank));
  return text;
}

bool CheckContext::Exists(std::string_view path) const {
  return ::access((sysroot + std::string(path)).c_str(), F_OK) == 0;
}

std::vector<std::string> CheckContext::List(std::string_view path) const {
  std::vector<std::string> names;
  DIR* const folder = ::opendir((sysroot + std::string(path)).c_str());
  if (folder == nullptr) return names;
  while (const dirent* const entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> CheckContext::efa_devices() const {
  std::vector<std::string> devices = List("/sys/class/infiniband");
  std::erase_if(devices, [](const std::string& name) {
    return !name.starts_with("efa_") && !name.starts_with("rdmap");
  });
  return devices;
}

bool CheckContext::needs_efa() const {
  return Env("FI_PROVIDER") == "efa" || (cards > 0 && has_efa());
}

bool CheckContext::wants_efa() const { return needs_efa() || (thorough && has_efa()); }

bool CheckContext::uses_host_nic() const { return EnvIsOn("HCCL_OVER_OFI") || wants_efa(); }

bool CheckContext::is_ec2() const {
  for (const char* file : {"sys_vendor", "board_vendor"}) {
    if (ReadLine(std::string("/sys/class/dmi/id/") + file) == "Amazon EC2") return true;
  }
  return has_efa();
}

CheckContext MakeCheckContext(const InspectionRequest& request, const std::string& sysroot) {
  CheckContext context;
  context.sysroot = sysroot;
  context.working_directory = request.launch.working_directory();
  if (request.launch.slots_are_cards()) {
    context.cards = static_cast<uint32_t>(request.launch.ranks_size());
  }
  context.node_count = std::max(1u, request.launch.node_count());
  for (const v1::EnvAssignment& assignment : request.launch.env()) {
    if (assignment.layer() > v1::ENV_LAYER_FORWARDED) context.set_by_job.insert(assignment.name());
  }
  context.thorough = request.thorough;
  (void)::getrlimit(RLIMIT_MEMLOCK, &context.memlock);
  (void)::getrlimit(RLIMIT_NOFILE, &context.open_files);
  context.env = VariablesOfFirstRank(request.launch, request.bootstrap);
  if (request.launch.has_container() && request.bootstrap.ranks_size() > 0) {
    // The limits of the engine's client are not those of ranks.
    const internal::ShimRank& rank = request.bootstrap.ranks(0);
    TakeLimit(LimitInContainer(request.launch, rank, "memlock"), context.memlock);
    TakeLimit(LimitInContainer(request.launch, rank, "nofile"), context.open_files);
  }
  return context;
}

}  // namespace muster
