// How the machine is set up.
#include <fmt/format.h>

#include <algorithm>

#include "agent/checks/quick_checks.h"

namespace muster {

v1::CheckResult CheckCpuGovernor(const CheckContext& context) {
  constexpr char kFolder[] = "/sys/devices/system/cpu/cpufreq";
  for (const std::string& policy : context.List(kFolder)) {
    if (!policy.starts_with("policy")) continue;
    const std::string governor =
        context.ReadLine(fmt::format("{}/{}/scaling_governor", kFolder, policy));
    if (governor.empty() || governor == "performance") continue;
    return MakeResult("cpu-governor", v1::WARN,
                      fmt::format("processors run under the governor {}", governor),
                      "cpupower frequency-set -g performance");
  }
  return MakeResult("cpu-governor", v1::PASS, "", "");
}

v1::CheckResult CheckNumaBalancing(const CheckContext& context) {
  const std::string value = context.ReadLine("/proc/sys/kernel/numa_balancing");
  if (value.empty() || value == "0") return MakeResult("numa-balancing", v1::PASS, "", "");
  return MakeResult(
      "numa-balancing", v1::WARN,
      fmt::format("kernel.numa_balancing is {}: memory of ranks is moved under them", value),
      "sysctl -w kernel.numa_balancing=0");
}

v1::CheckResult CheckIommu(const CheckContext& context) {
  const std::string line = " " + context.ReadLine("/proc/cmdline") + " ";
  // Only where the kernel uses one: in virtual machines there often is none.
  const std::vector<std::string> units = context.List("/sys/class/iommu");
  const bool passes = line.find(" iommu=pt ") != std::string::npos ||
                      line.find(" intel_iommu=off ") != std::string::npos ||
                      line.find(" amd_iommu=off ") != std::string::npos ||
                      line.find(" iommu=off ") != std::string::npos;
  if (units.empty() || passes) return MakeResult("iommu", v1::PASS, "", "");
  return MakeResult("iommu", v1::WARN, "the IOMMU translates every access of the cards",
                    "add iommu=pt (with intel_iommu=on) to the command line of the kernel");
}

}  // namespace muster
