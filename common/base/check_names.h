// The checks that are made of nodes before ranks start, by the names that `checks.skip` and
// `checks.require` take, with one line about each. Those at the end compare nodes with one another.
// What every start needs (directory, script, program, user, slots) is no choice and not here.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace muster {

struct CheckName {
  std::string_view name;
  std::string_view about;
};

inline constexpr std::array kCheckNames = {
    CheckName{"hccl-interface", "HCCL_SOCKET_IFNAME names an interface that HCCL can use"},
    CheckName{"gloo-interface", "GLOO_SOCKET_IFNAME names interfaces that are there and up"},
    CheckName{"nccl-interface", "NCCL_SOCKET_IFNAME names an interface that is there and up"},
    CheckName{"host-nic", "HCCL_OVER_OFI does not turn off direct transfers from the cards"},
    CheckName{"ofi-wrapper", "libhccl_ofi_wrapper.so and its libraries are found by the ranks"},
    CheckName{"efa", "devices, kernel, libfabric and variables suit EFA"},
    CheckName{"memlock", "ranks may lock as much memory as they like"},
    CheckName{"open-files", "ranks may open enough files"},
    CheckName{"hugepages", "there are 4400 MiB of huge pages for each card"},
    CheckName{"shared-memory", "/dev/shm has at least 1 GiB"},
    CheckName{"habana-logs", "the folder HABANA_LOGS can be written to as the user of the ranks"},
    CheckName{"habana-files", "files that GC_KERNEL_PATH and its like name are there"},
    CheckName{"network-files", "macAddrInfo.json and gaudinet.json can be read and understood"},
    CheckName{"runtime-error", "the container runtime has reported no error"},
    CheckName{"cards", "the cards of the ranks are there and work"},
    CheckName{"card-busy", "no process has the cards open"},
    CheckName{"card-ports", "the network ports of the cards have a link"},
    CheckName{"driver",
              "the driver has the modules that ports need, and is of the firmware's release"},
    CheckName{"cpu-governor", "processors run at full speed"},
    CheckName{"numa-balancing", "the kernel does not move memory of ranks between NUMA nodes"},
    CheckName{"iommu", "the IOMMU lets cards pass through"},
    CheckName{"hostname", "the node has a name of its own"},
    CheckName{"disk", "there is room for the output of ranks"},
    CheckName{"software", "versions of Python, its packages and libfabric can be found out"},
    CheckName{"clock", "clocks of all nodes agree"},
    CheckName{"same-machine", "no machine is in the job twice"},
    CheckName{"same-hostname", "every machine has another host name"},
    CheckName{"same-driver", "driver, firmware and type of cards are the same everywhere"},
    CheckName{"same-software",
              "kernel, Python, its packages and libfabric are the same everywhere"},
    CheckName{"same-environment", "HCCL_* variables are the same everywhere"},
    CheckName{"same-network",
              "nodes are in one subnet, zone and placement group, cards in one network"},
};

inline bool IsCheckName(std::string_view name) {
  return std::any_of(kCheckNames.begin(), kCheckNames.end(),
                     [&](const CheckName& known) { return known.name == name; });
}

}  // namespace muster
