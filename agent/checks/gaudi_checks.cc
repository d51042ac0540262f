// What only matters where ranks have Gaudi cards.
#include <fmt/format.h>

#include "agent/checks/network_files.h"
#include "agent/checks/quick_checks.h"

namespace muster {
namespace {

// Files that variables name are those of users: the probe looks at them.
bool IsUsual(const CheckContext& context, const char* variable) {
  return context.Env(variable).empty();
}

// What is wrong with a file of the node that is there.
std::string Fault(const CheckContext& context, const char* path,
                  std::string (*fault_of)(std::string_view, std::string_view)) {
  if (const std::optional<std::string> text = context.Read(path)) return fault_of(path, *text);
  return context.Exists(path) ? fmt::format("{} cannot be read", path) : "";
}

}  // namespace

bool UsesLayer3(const CheckContext& context) {
  if (!IsUsual(context, kNetVariable)) return true;
  return context.Exists(kNetFile) || context.Exists(kOldNetFile);
}

v1::CheckResult CheckNetworkFiles(const CheckContext& context) {
  std::string fault;
  if (IsUsual(context, kMacVariable)) fault = Fault(context, kMacFile, FaultOfMacFile);
  for (const char* path : {kNetFile, kOldNetFile}) {
    if (fault.empty() && IsUsual(context, kNetVariable)) {
      fault = Fault(context, path, FaultOfNetFile);
    }
  }
  if (!fault.empty()) {
    return MakeResult("network-files", v1::FAIL, fault,
                      "write it anew with the tools of the driver, or take it away");
  }
  // Outside containers HCL can ask the driver instead, so this need not be the end.
  if (context.multi_node() && !context.uses_host_nic() && UsesLayer3(context) &&
      IsUsual(context, kMacVariable) && !context.Exists(kMacFile)) {
    return MakeResult(
        "network-files", v1::WARN,
        fmt::format("the cards are on an L3 network, and {} is not there", kMacFile),
        fmt::format("write it with the tools of the driver, or name it by {}", kMacVariable));
  }
  return MakeResult("network-files", v1::PASS, "", "");
}

v1::CheckResult CheckDriver(const CheckContext& context) {
  // There are cards, so there is a driver: one that cannot be seen from here.
  if (!context.Exists("/sys/module/habanalabs")) {
    return MakeResult("driver", v1::SKIPPED, "the module habanalabs is not in /sys/module", "");
  }
  // Without them the ports of the cards do not work; drivers before 1.17 had them in one.
  const bool split = context.Exists("/sys/module/habanalabs_cn");
  if (split && context.multi_node()) {
    for (const char* module : {"habanalabs_en", "habanalabs_ib"}) {
      if (context.Exists(fmt::format("/sys/module/{}", module))) continue;
      return MakeResult("driver", v1::WARN,
                        fmt::format("the kernel module {} is not loaded: the network ports of the "
                                    "cards may not work",
                                    module),
                        fmt::format("modprobe {}", module));
    }
  }
  return MakeResult("driver", v1::PASS, context.ReadLine("/sys/module/habanalabs/version"), "");
}

}  // namespace muster
