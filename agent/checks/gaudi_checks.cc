// What only matters where ranks have Gaudi cards.
#include <fmt/format.h>

#include <algorithm>

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
  if (fault.empty() && IsUsual(context, kNetVariable)) {
    fault = Fault(context, context.Exists(kNetFile) ? kNetFile : kOldNetFile, FaultOfNetFile);
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

namespace {

// "1.22" of "1.22.0-740" and of "hl-gaudi2-1.22.0-fw-61.0.2"; empty: it is not there.
std::string ReleaseIn(std::string_view text, std::string_view start) {
  const size_t at = text.find(start);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + start.size());
  const size_t dot = text.find('.');
  if (dot == 0 || dot == std::string_view::npos) return "";
  const size_t end = std::min(text.find_first_not_of("0123456789", dot + 1), text.size());
  const bool is_number =
      text.substr(0, dot).find_first_not_of("0123456789") == std::string_view::npos;
  return is_number && end > dot + 1 ? std::string(text.substr(0, end)) : "";
}

// The release of the first card's firmware that says one.
std::string FirmwareRelease(const CheckContext& context) {
  for (const std::string& card : context.List("/sys/class/accel")) {
    const std::string text =
        context.ReadLine(fmt::format("/sys/class/accel/{}/device/fw_os_ver", card));
    // hl-MODEL-RELEASE-fw-VERSION.
    const size_t fw = text.find("-fw-");
    const size_t model = text.find("hl-");
    if (fw == std::string::npos || model == std::string::npos || model > fw) continue;
    const size_t dash = text.rfind('-', fw - 1);
    if (dash == std::string::npos) continue;
    return ReleaseIn(std::string_view(text).substr(dash, fw - dash), "-");
  }
  return "";
}

}  // namespace

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
  const std::string version = context.ReadLine("/sys/module/habanalabs/version");
  const std::string driver = ReleaseIn(version, "");
  const std::string firmware = FirmwareRelease(context);
  if (!driver.empty() && !firmware.empty() && driver != firmware) {
    return MakeResult("driver", v1::WARN,
                      fmt::format("the driver is of release {}, the firmware of the cards of {}",
                                  driver, firmware),
                      "install driver and firmware of one release (hl-fw-loader)");
  }
  return MakeResult("driver", v1::PASS, version, "");
}

}  // namespace muster
