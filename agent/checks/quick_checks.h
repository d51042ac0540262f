// The checks that take no time: files of /proc and /sys, limits, variables. One function each, pure
// but for what CheckContext reads.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "agent/checks/check_context.h"

namespace muster {

struct QuickCheck {
  // Of common/base/check_names.h.
  std::string_view name;
  // Whether there is anything to say about this start.
  bool (*applies)(const CheckContext& context);
  // PASS, WARN or FAIL. The message is the same on nodes where the same was found.
  v1::CheckResult (*run)(const CheckContext& context);
};

// In the order in which they are told.
std::span<const QuickCheck> QuickChecks();

// Runs those that apply and that are not in `skip`. In a thorough inspection those that do not
// apply are told as SKIPPED.
std::vector<v1::CheckResult> RunQuickChecks(
    const CheckContext& context, const google::protobuf::RepeatedPtrField<std::string>& skip);

// network_checks.cc
v1::CheckResult CheckHcclInterface(const CheckContext& context);
// The one that HCCL takes; null: there is none that it can use.
const NetworkInterface* HcclInterface(const CheckContext& context);
v1::CheckResult CheckGlooInterface(const CheckContext& context);
v1::CheckResult CheckNcclInterface(const CheckContext& context);
v1::CheckResult CheckHostname(const CheckContext& context);
// host_nic_checks.cc
v1::CheckResult CheckHostNic(const CheckContext& context);
v1::CheckResult CheckEfa(const CheckContext& context);
// memory_checks.cc
v1::CheckResult CheckMemlock(const CheckContext& context);
v1::CheckResult CheckOpenFileLimit(const CheckContext& context);
v1::CheckResult CheckHugePages(const CheckContext& context);
v1::CheckResult CheckSharedMemory(const CheckContext& context);
v1::CheckResult CheckDisk(const CheckContext& context);
// gaudi_checks.cc
v1::CheckResult CheckNetworkFiles(const CheckContext& context);
// The cards have IP addresses: HCL finds a gaudinet.json.
bool UsesLayer3(const CheckContext& context);
v1::CheckResult CheckDriver(const CheckContext& context);
// machine_checks.cc
v1::CheckResult CheckCpuGovernor(const CheckContext& context);
v1::CheckResult CheckNumaBalancing(const CheckContext& context);
v1::CheckResult CheckIommu(const CheckContext& context);

}  // namespace muster
