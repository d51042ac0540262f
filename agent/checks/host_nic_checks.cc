// Scale-out through the network cards of the host: libfabric, EFA.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>

#include "agent/checks/quick_checks.h"

namespace muster {
namespace {

struct KernelVersion {
  int major = 0;
  int minor = 0;
};

std::optional<KernelVersion> ParseKernel(const std::string& text) {
  KernelVersion version;
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
  if (std::from_chars(major.ptr + 1, end, version.minor).ec != std::errc()) return std::nullopt;
  return version;
}

// Adapters that the bus has, whether a driver has taken them or not.
size_t CountEfaAdapters(const CheckContext& context) {
  size_t count = 0;
  for (const std::string& device : context.List("/sys/bus/pci/devices")) {
    const std::string folder = "/sys/bus/pci/devices/" + device;
    if (context.ReadLine(folder + "/vendor") != "0x1d0f") continue;
    if (context.ReadLine(folder + "/device").starts_with("0xefa")) ++count;
  }
  return count;
}

bool HasUverbs(const CheckContext& context) {
  for (const std::string& name : context.List("/dev/infiniband")) {
    if (name.starts_with("uverbs")) return true;
  }
  return false;
}

}  // namespace

v1::CheckResult CheckHostNic(const CheckContext& context) {
  if (context.cards == 0) return MakeResult("host-nic", v1::PASS, "", "");
  return MakeResult("host-nic", v1::WARN,
                    "HCCL_OVER_OFI=1 sends everything through the memory of the host and turns "
                    "Gaudi Direct off, which is slower",
                    "leave HCCL_OVER_OFI unset: HCCL then takes the ports of the cards, else the "
                    "network cards of the host, directly where it can");
}

v1::CheckResult CheckEfa(const CheckContext& context) {
  std::vector<std::string> faults;
  std::vector<std::string> doubts;
  if (!context.has_efa()) {
    faults.push_back("FI_PROVIDER=efa, and there is no EFA device in /sys/class/infiniband");
  } else if (!HasUverbs(context)) {
    faults.push_back(
        "there are EFA devices and no /dev/infiniband/uverbs* (--device or "
        "--privileged of the container)");
  }
  const std::string_view provider = context.Env("FI_PROVIDER");
  if (!provider.empty() && provider != "efa") {
    doubts.push_back(fmt::format("FI_PROVIDER={} leaves EFA aside", provider));
  }
  for (const char* variable : {"RDMAV_FORK_SAFE", "FI_EFA_USE_DEVICE_RDMA"}) {
    if (context.Env(variable) != "1") doubts.push_back(fmt::format("{} is not 1", variable));
  }
  const size_t adapters = CountEfaAdapters(context);
  if (const size_t devices = context.efa_devices().size(); devices < adapters) {
    doubts.push_back(fmt::format("the kernel has {} of {} EFA adapters{}", devices, adapters,
                                 context.Exists("/sys/module/efa") ? "" : ": no module efa"));
  }
  const std::string_view path = context.Env("LD_LIBRARY_PATH");
  for (const char* directory :
       {"/opt/amazon/efa/lib", "/opt/amazon/openmpi/lib", "/usr/lib/habanalabs"}) {
    // Open MPI counts only where it was installed; nothing of Muster uses it.
    const bool counts =
        !std::string_view(directory).ends_with("/openmpi/lib") || context.Exists(directory);
    if (context.cards > 0 && counts && path.find(directory) == std::string_view::npos) {
      doubts.push_back(fmt::format("LD_LIBRARY_PATH has no {}", directory));
    }
  }
  const std::optional<KernelVersion> kernel =
      ParseKernel(context.ReadLine("/proc/sys/kernel/osrelease"));
  if (kernel && (kernel->major < 5 || (kernel->major == 5 && kernel->minor < 12))) {
    doubts.push_back(fmt::format("kernel {}.{} is older than 5.12, which Gaudi Direct needs",
                                 kernel->major, kernel->minor));
  }
  const std::vector<std::string>& all = faults.empty() ? doubts : faults;
  if (all.empty()) return MakeResult("efa", v1::PASS, "", "");
  return MakeResult(
      "efa", faults.empty() ? v1::WARN : v1::FAIL, fmt::format("{}", fmt::join(all, "; ")),
      faults.empty() ? "set variables in an env file, as the EFA installer says; load "
                       "the module efa"
                     : "install EFA and map its devices, or unset FI_PROVIDER");
}

}  // namespace muster
