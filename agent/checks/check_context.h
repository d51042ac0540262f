// What checks of a node look at: the start that they are for, and the machine. Values, made for one
// inspection. Reading the machine is a few files of /proc and /sys below `sysroot`, which never
// block; a test gives a folder of its own.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/checks/network_interfaces.h"
#include "agent/core/node_inspector.h"
#include "muster/v1/types.pb.h"

namespace muster {

struct CheckContext {
  // Empty: the machine itself.
  std::string sysroot;
  // Environment of the ranks (of the first of them; they differ in rank variables only).
  std::map<std::string, std::string, std::less<>> env;
  // Variables that the job itself sets, not only the shell of whoever submitted it, or the agent.
  std::set<std::string, std::less<>> set_by_job;
  std::string working_directory;
  // Cards that ranks are to have.
  uint32_t cards = 0;
  uint32_t node_count = 1;
  // See InspectionRequest.
  bool thorough = false;
  // Of the agent, whose limits ranks inherit, or what containers are given.
  rlimit memlock{RLIM_INFINITY, RLIM_INFINITY};
  rlimit open_files{RLIM_INFINITY, RLIM_INFINITY};
  // Where output of ranks is kept until it was shipped.
  std::string state_directory;
  std::vector<NetworkInterface> interfaces;

  // Value of a variable; empty when it is not set, which is the same to all libraries concerned.
  std::string_view Env(std::string_view name) const;
  // True when a variable is set to something that switches on: 1, y, yes, true, on.
  bool EnvIsOn(std::string_view name) const;
  bool multi_node() const { return node_count > 1; }

  // The text of a file below `sysroot`, cut at 64 KiB; nothing when it cannot be read.
  std::optional<std::string> Read(std::string_view path) const;
  // The same without blanks and newlines around it; empty when it cannot be read.
  std::string ReadLine(std::string_view path) const;
  bool Exists(std::string_view path) const;
  // Names in a folder below `sysroot`, in order; none when it cannot be read.
  std::vector<std::string> List(std::string_view path) const;

  // Names of the EFA devices that the driver has.
  std::vector<std::string> efa_devices() const;
  bool has_efa() const { return !efa_devices().empty(); }
  // Ranks will use EFA: FI_PROVIDER says so, or they have cards and the devices are there.
  bool needs_efa() const;
  // The same, or somebody wants to know.
  bool wants_efa() const;
  // Ranks go through network cards of the host, or might.
  bool uses_host_nic() const;
  // The machine is an instance of AWS: its firmware says so, or it has EFA devices.
  bool is_ec2() const;
};

// Without `interfaces`, which only some checks need.
CheckContext MakeCheckContext(const InspectionRequest& request, const std::string& sysroot);

inline v1::CheckResult MakeResult(std::string_view check, v1::Verdict verdict, std::string message,
                                  std::string fix) {
  v1::CheckResult result;
  result.set_check(std::string(check));
  result.set_verdict(verdict);
  result.set_message(std::move(message));
  result.set_fix(std::move(fix));
  return result;
}

}  // namespace muster
