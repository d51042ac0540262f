// Limits, kernel settings, and what cards need.
#include <gmock/gmock.h>

#include <set>

#include "common/base/check_names.h"
#include "tests/unit/agent_checks/check_world.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kGaudinet[] = R"({"NIC_NET_CONFIG": [{"NIC_MAC": "b0:fd:0b:00:00:01",
    "NIC_IP": "192.168.100.1", "SUBNET_MASK": "255.255.255.0", "GATEWAY_MAC": "b0:fd:0b:00:00:ff"}]})";

using MachineChecksTest = CheckTest;

TEST_F(MachineChecksTest, EveryCheckHasANameThatCanBeSkipped) {
  std::set<std::string_view> names;
  for (const QuickCheck& check : QuickChecks()) {
    EXPECT_TRUE(IsCheckName(check.name)) << check.name;
    EXPECT_TRUE(names.insert(check.name).second) << check.name;
  }
}

TEST_F(MachineChecksTest, APlainStartWithoutCardsIsNotLookedAt) {
  EXPECT_THAT(RunQuickChecks(context_, {}), IsEmpty());
}

TEST_F(MachineChecksTest, AThoroughOneSaysWhatDoesNotApplyAndWhatWasLeftOut) {
  context_.thorough = true;
  google::protobuf::RepeatedPtrField<std::string> skip;
  *skip.Add() = "open-files";
  const std::vector<v1::CheckResult> results = RunQuickChecks(context_, skip);
  EXPECT_EQ(results.size(), QuickChecks().size());
  for (const v1::CheckResult& result : results) {
    if (result.check() == "hugepages") {
      EXPECT_EQ(result.message(), "does not apply");
    }
    if (result.check() == "open-files") {
      EXPECT_EQ(result.message(), "left out on request");
    }
  }
}

TEST_F(MachineChecksTest, EveryWarningAndFailureHasAFix) {
  context_.thorough = true;
  context_.cards = 8;
  context_.node_count = 2;
  context_.memlock = {65536, 65536};
  context_.open_files = {1024, 1024};
  context_.env = {{"HCCL_OVER_OFI", "1"}, {"FI_PROVIDER", "efa"}, {"HABANA_RUNTIME_ERROR", "x"}};
  Put("/proc/sys/kernel/numa_balancing", "1\n");
  Put("/proc/sys/kernel/hostname", "localhost\n");
  Put("/proc/meminfo", "HugePages_Total: 0\n");
  Put("/sys/class/iommu/dmar0", "");
  Put("/proc/cmdline", "quiet");
  Put("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n");
  size_t bad = 0;
  for (const v1::CheckResult& result : RunQuickChecks(context_, {})) {
    if (result.verdict() != v1::WARN && result.verdict() != v1::FAIL) continue;
    ++bad;
    EXPECT_NE(result.message(), "") << result.check();
    EXPECT_NE(result.fix(), "") << result.check();
  }
  EXPECT_GE(bad, 10u);
}

TEST_F(MachineChecksTest, LockedMemoryIsAWarningAndWithEfaAFailure) {
  context_.cards = 1;
  EXPECT_EQ(VerdictOf("memlock"), v1::PASS);
  context_.memlock = {65536, RLIM_INFINITY};
  EXPECT_EQ(VerdictOf("memlock"), v1::WARN);
  Put("/sys/class/infiniband/rdmap0s6/node_type", "");
  const v1::CheckResult result = Run("memlock");
  EXPECT_EQ(result.verdict(), v1::FAIL);
  EXPECT_THAT(result.message(), HasSubstr("65536"));
}

TEST_F(MachineChecksTest, TheHardLimitOfOpenFilesCounts) {
  context_.cards = 1;
  context_.open_files = {1024, 1048576};
  EXPECT_EQ(VerdictOf("open-files"), v1::PASS);
  context_.open_files = {1024, 4096};
  EXPECT_EQ(VerdictOf("open-files"), v1::WARN);
}

TEST_F(MachineChecksTest, HugePagesPerCard) {
  Put("/proc/meminfo", "MemTotal: 1 kB\nHugePages_Total:   17600\nHugepagesize:       2048 kB\n");
  EXPECT_EQ(VerdictOf("hugepages"), v1::SKIPPED);
  context_.cards = 8;
  EXPECT_EQ(VerdictOf("hugepages"), v1::PASS);
  Put("/proc/meminfo", "HugePages_Total:   100\nHugepagesize:       2048 kB\n");
  const v1::CheckResult result = Run("hugepages");
  EXPECT_EQ(result.verdict(), v1::WARN);
  EXPECT_THAT(result.message(), AllOf(HasSubstr("200 MiB"), HasSubstr("35200 MiB")));
  EXPECT_EQ(result.fix(), "sysctl -w vm.nr_hugepages=17600");
}

TEST_F(MachineChecksTest, WithEfaSomeHugePagesMustBeFree) {
  context_.cards = 1;
  Put("/proc/meminfo", "HugePages_Total: 2200\nHugePages_Free: 0\nHugepagesize: 2048 kB\n");
  EXPECT_EQ(VerdictOf("hugepages"), v1::PASS);
  Put("/sys/class/infiniband/efa_0/node_type", "");
  EXPECT_THAT(Run("hugepages").message(), HasSubstr("none of 2200 huge pages is free"));
  Put("/proc/meminfo", "HugePages_Total: 2200\nHugePages_Free: 9\nHugepagesize: 2048 kB\n");
  EXPECT_EQ(VerdictOf("hugepages"), v1::PASS);
}

TEST_F(MachineChecksTest, DriverAndFirmwareAreOfOneRelease) {
  context_.cards = 8;
  Put("/sys/module/habanalabs/version", "1.22.0-740\n");
  Put("/sys/class/accel/accel0/device/fw_os_ver",
      "Linux gaudi2 5.10.18-hl-gaudi2-1.22.1-fw-61.0.2-sec-9");
  EXPECT_EQ(VerdictOf("driver"), v1::PASS);
  Put("/sys/class/accel/accel0/device/fw_os_ver", "hl-gaudi2-1.20.0-fw-58.0.0");
  EXPECT_EQ(VerdictOf("driver"), v1::WARN);
  EXPECT_THAT(Run("driver").message(), AllOf(HasSubstr("release 1.22"), HasSubstr("of 1.20")));
  for (const char* other : {"", "fw-58", "-fw-", "hl-fw-1", "hl-x-fw-1"}) {
    Put("/sys/class/accel/accel0/device/fw_os_ver", other);
    EXPECT_EQ(VerdictOf("driver"), v1::PASS) << other;
  }
}

TEST_F(MachineChecksTest, WhatASimulatedNodeDoesNotHaveIsNotKnown) {
  context_.cards = 1;
  EXPECT_EQ(VerdictOf("hugepages"), v1::SKIPPED);
  EXPECT_EQ(VerdictOf("shared-memory"), v1::SKIPPED);
}

TEST_F(MachineChecksTest, KernelSettings) {
  context_.cards = 1;
  EXPECT_EQ(VerdictOf("numa-balancing"), v1::PASS);
  Put("/proc/sys/kernel/numa_balancing", "1\n");
  EXPECT_EQ(VerdictOf("numa-balancing"), v1::WARN);

  Put("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n");
  EXPECT_EQ(VerdictOf("cpu-governor"), v1::PASS);
  Put("/sys/devices/system/cpu/cpufreq/policy4/scaling_governor", "powersave\n");
  EXPECT_EQ(VerdictOf("cpu-governor"), v1::WARN);

  EXPECT_EQ(VerdictOf("iommu"), v1::PASS);
  Put("/sys/class/iommu/dmar0", "");
  Put("/proc/cmdline", "BOOT_IMAGE=/vmlinuz intel_iommu=on\n");
  EXPECT_EQ(VerdictOf("iommu"), v1::WARN);
  Put("/proc/cmdline", "BOOT_IMAGE=/vmlinuz intel_iommu=on iommu=pt\n");
  EXPECT_EQ(VerdictOf("iommu"), v1::PASS);
}

TEST_F(MachineChecksTest, ADriverThatIsSeenHasTheModulesThatPortsNeed) {
  context_.cards = 8;
  EXPECT_EQ(VerdictOf("driver"), v1::SKIPPED);
  Put("/sys/module/habanalabs/version", "1.22.0-740\n");
  EXPECT_EQ(VerdictOf("driver"), v1::PASS);
  Put("/sys/module/habanalabs_cn/version", "1.22.0-740\n");
  context_.node_count = 2;
  EXPECT_THAT(Run("driver").message(), HasSubstr("habanalabs_en"));
}

TEST_F(MachineChecksTest, AFileThatIsReadInPartIsNotJudged) {
  context_.cards = 8;
  context_.node_count = 2;
  Put("/etc/habanalabs/gaudinet.json",
      std::string(kGaudinet) + std::string(size_t{128} * 1024, ' '));
  EXPECT_NE(Run("network-files").verdict(), v1::FAIL);
  Put("/etc/habanalabs/gaudinet.json", std::string(size_t{128} * 1024, ' ') + kGaudinet);
  EXPECT_NE(Run("network-files").verdict(), v1::FAIL);
}

TEST_F(MachineChecksTest, AnOldFileIsOnlyLookedAtWhenThereIsNoNewOne) {
  context_.cards = 8;
  context_.node_count = 2;
  Put("/etc/gaudinet.json", "{}");
  EXPECT_EQ(Run("network-files").verdict(), v1::FAIL);
  Put("/etc/habanalabs/gaudinet.json", kGaudinet);
  EXPECT_NE(Run("network-files").verdict(), v1::FAIL) << Run("network-files").message();
}

TEST_F(MachineChecksTest, FilesOfTheNetworkMustBeJson) {
  context_.cards = 8;
  EXPECT_EQ(VerdictOf("network-files"), v1::PASS);
  Put("/etc/habanalabs/gaudinet.json", kGaudinet);
  EXPECT_EQ(VerdictOf("network-files"), v1::PASS);
  Put("/etc/habanalabs/gaudinet.json", R"({"NIC_NET_CONFIG": [{"NIC_MAC": "aa:bb"}]})");
  EXPECT_THAT(Run("network-files").message(), HasSubstr("entry 1 of NIC_NET_CONFIG has no NIC_IP"));
  Put("/etc/habanalabs/gaudinet.json", R"({"NIC_NET": []})");
  EXPECT_THAT(Run("network-files").message(), HasSubstr("has no list NIC_NET_CONFIG"));
  Put("/etc/habanalabs/gaudinet.json", "{\"NIC_NET_CONFIG\":\n [}");
  EXPECT_EQ(VerdictOf("network-files"), v1::FAIL);
  EXPECT_THAT(Run("network-files").message(),
              HasSubstr("gaudinet.json is no JSON: parse error at line 2, column 3"));
  Put("/etc/habanalabs/gaudinet.json", R"({"NIC_NET_CONFIG": []})");
  Put("/etc/habanalabs/macAddrInfo.json", "oops");
  EXPECT_THAT(Run("network-files").message(), HasSubstr("macAddrInfo.json is no JSON"));
}

TEST_F(MachineChecksTest, OnAnL3NetworkAMissingMacFileIsAWarning) {
  context_.cards = 8;
  context_.node_count = 2;
  EXPECT_EQ(VerdictOf("network-files"), v1::PASS);
  Put("/etc/gaudinet.json", kGaudinet);
  EXPECT_EQ(VerdictOf("network-files"), v1::WARN);
  EXPECT_THAT(Run("network-files").message(), HasSubstr("macAddrInfo.json is not there"));
  // Where it is named, the probe looks; over the host's network neither file counts.
  context_.env["HCL_MAC_INFO_FILE"] = "/home/alice/mac.json";
  EXPECT_EQ(VerdictOf("network-files"), v1::PASS);
  context_.env = {{"HCCL_OVER_OFI", "1"}};
  EXPECT_EQ(VerdictOf("network-files"), v1::PASS);
}

TEST_F(MachineChecksTest, FilesThatVariablesNameGoBeforeThoseOfTheNode) {
  context_.cards = 8;
  Put("/etc/habanalabs/gaudinet.json", "oops");
  Put("/etc/habanalabs/macAddrInfo.json", "oops");
  context_.env = {{"HCL_MAC_INFO_FILE", "/m"}, {"HCL_GAUDINET_CONFIG_FILE", "/g"}};
  EXPECT_EQ(VerdictOf("network-files"), v1::PASS);
}

TEST_F(MachineChecksTest, ForcingTheHostMemoryIsAWarningWithCards) {
  context_.env["HCCL_OVER_OFI"] = "1";
  EXPECT_EQ(VerdictOf("host-nic"), v1::PASS);
  context_.cards = 8;
  EXPECT_THAT(Run("host-nic").message(), HasSubstr("Gaudi Direct"));
  context_.env["HCCL_OVER_OFI"] = "0";
  EXPECT_EQ(VerdictOf("host-nic"), v1::SKIPPED);
}

TEST_F(MachineChecksTest, EfaNeedsItsDevicesAndVariables) {
  EXPECT_EQ(VerdictOf("efa"), v1::SKIPPED);
  context_.env["FI_PROVIDER"] = "efa";
  EXPECT_EQ(VerdictOf("efa"), v1::FAIL);
  Put("/sys/class/infiniband/efa_0/node_type", "");
  EXPECT_THAT(Run("efa").message(), HasSubstr("uverbs"));
  Put("/dev/infiniband/uverbs0", "");
  EXPECT_THAT(Run("efa").message(), HasSubstr("RDMAV_FORK_SAFE is not 1"));
  context_.env["RDMAV_FORK_SAFE"] = "1";
  context_.env["FI_EFA_USE_DEVICE_RDMA"] = "1";
  EXPECT_EQ(VerdictOf("efa"), v1::PASS);
  Put("/proc/sys/kernel/osrelease", "5.4.0-1103-aws\n");
  EXPECT_THAT(Run("efa").message(), HasSubstr("kernel 5.4 is older"));
  Put("/proc/sys/kernel/osrelease", "6.8.0-1103-aws\n");
  EXPECT_EQ(VerdictOf("efa"), v1::PASS);
  for (const char* adapter : {"0000:10:1b.0", "0000:20:1b.0"}) {
    Put("/sys/bus/pci/devices/" + std::string(adapter) + "/vendor", "0x1d0f\n");
    Put("/sys/bus/pci/devices/" + std::string(adapter) + "/device", "0xefa1\n");
  }
  EXPECT_THAT(Run("efa").message(), HasSubstr("the kernel has 1 of 2 EFA adapters: no module efa"));
}

}  // namespace
}  // namespace muster::testing
