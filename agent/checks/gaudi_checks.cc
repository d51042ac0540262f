// What only matters where ranks have Gaudi cards.
#include <fmt/format.h>

#include "agent/checks/json_file.h"
#include "agent/checks/quick_checks.h"
#include "common/base/annotate.h"

namespace muster {
namespace {

constexpr char kMacFile[] = "/etc/habanalabs/macAddrInfo.json";
constexpr char kNetFile[] = "/etc/habanalabs/gaudinet.json";
constexpr char kOldNetFile[] = "/etc/gaudinet.json";

// What is wrong with a file of JSON that is there, and with its `list` unless that is empty; empty
// when nothing is, or it is not there.
std::string Fault(const CheckContext& context, const char* path, const char* list) {
  const std::optional<std::string> text = context.Read(path);
  if (!text) return context.Exists(path) ? fmt::format("{} cannot be read", path) : "";
  const absl::StatusOr<google::protobuf::Struct> object = ParseJsonObject(*text);
  if (!object.ok()) return fmt::format("{} is no JSON: {}", path, MessageOf(object.status()));
  if (*list == '\0') return "";
  const auto found = object->fields().find(list);
  if (found == object->fields().end() || !found->second.has_list_value()) {
    return fmt::format("{} has no list {}", path, list);
  }
  return "";
}

}  // namespace

v1::CheckResult CheckNetworkFiles(const CheckContext& context) {
  for (const auto& [path, list] : {std::pair{kMacFile, ""}, std::pair{kNetFile, "NIC_NET_CONFIG"},
                                   std::pair{kOldNetFile, "NIC_NET_CONFIG"}}) {
    const std::string fault = Fault(context, path, list);
    if (fault.empty()) continue;
    return MakeResult("network-files", v1::FAIL, fault,
                      "write it anew with the tools of the driver, or take it away");
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
