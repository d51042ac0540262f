#include "agent/node/addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/testing/temp_folder.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

InterfaceAddress V4(std::string interface, std::string address) {
  return {.interface = std::move(interface), .address = std::move(address)};
}

InterfaceAddress V6(std::string interface, std::string address) {
  return {.interface = std::move(interface), .address = std::move(address), .ipv6 = true};
}

InterfaceAddress Loopback(std::string address, bool ipv6) {
  return {.interface = "lo", .address = std::move(address), .ipv6 = ipv6, .loopback = true};
}

TEST(OrderAddresses, PutsIpv4BeforeIpv6BeforeLoopback) {
  EXPECT_THAT(OrderAddresses({Loopback("127.0.0.1", false), Loopback("::1", true),
                              V6("eth0", "2001:db8::7"), V4("eth0", "192.0.2.7")},
                             {}),
              ElementsAre("192.0.2.7", "2001:db8::7", "127.0.0.1", "::1"));
}

TEST(OrderAddresses, PrefersTheInterfaceOfTheDefaultRoute) {
  EXPECT_THAT(OrderAddresses({V4("eth0", "198.51.100.1"), V4("eth1", "192.0.2.1")}, {"eth1"}),
              ElementsAre("192.0.2.1", "198.51.100.1"));
}

TEST(OrderAddresses, PutsContainerBridgesBehindRealInterfaces) {
  EXPECT_THAT(OrderAddresses({V4("docker0", "172.17.0.1"), V4("ens3", "192.0.2.1")}, {}),
              ElementsAre("192.0.2.1", "172.17.0.1"));
}

TEST(OrderAddresses, TakesABridgeWithTheDefaultRouteForReal) {
  EXPECT_THAT(OrderAddresses({V4("eth9", "198.51.100.1"), V4("br-lan", "192.0.2.1")}, {"br-lan"}),
              ElementsAre("192.0.2.1", "198.51.100.1"));
}

TEST(OrderAddresses, LeavesOutLinkLocalAndRepeatedAddresses) {
  InterfaceAddress local = V6("eth0", "fe80::1");
  local.link_local = true;
  EXPECT_THAT(OrderAddresses({local, V4("eth0", "192.0.2.1"), V4("eth0", "192.0.2.1")}, {}),
              ElementsAre("192.0.2.1"));
}

TEST(OrderAddresses, KeepsTheKernelsOrderAmongEquals) {
  EXPECT_THAT(OrderAddresses({V4("b", "192.0.2.9"), V4("a", "192.0.2.1")}, {}),
              ElementsAre("192.0.2.9", "192.0.2.1"));
}

TEST(ParseDefaultRouteInterfaces, FindsEveryDefaultRoute) {
  EXPECT_THAT(
      ParseDefaultRouteInterfaces(
          "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
          "eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
          "eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
          "ib0\t00000000\t010200C0\t0003\t0\t0\t200\t00000000\t0\t0\t0\n"),
      ElementsAre("eth0", "ib0"));
}

TEST(ParseDefaultRouteInterfaces, IgnoresWhatItDoesNotUnderstand) {
  EXPECT_THAT(ParseDefaultRouteInterfaces("eth0 zz yy\n\n\tgarbage"), IsEmpty());
  EXPECT_THAT(ParseDefaultRouteInterfaces(""), IsEmpty());
}

std::vector<InterfaceAddress> TrainingHost() {
  return {{.interface = "lo", .address = "127.0.0.1", .loopback = true},
          {.interface = "eno1", .address = "192.0.2.7"},
          {.interface = "eno1", .address = "2001:db8::7", .ipv6 = true},
          {.interface = "ens1f0", .address = "10.0.0.7"},
          {.interface = "ens1f0", .address = "169.254.3.4", .link_local = true},
          {.interface = "ens1f1", .address = "10.0.1.7"},
          {.interface = "enp19s0d4", .address = "172.31.0.7"}};
}

TEST(MatchSocketInterfaces, TakesEveryPrefixOfTheListInTheKernelsOrder) {
  EXPECT_THAT(MatchSocketInterfaces(TrainingHost(), "ens1f1,eno", {}),
              ElementsAre("192.0.2.7", "10.0.1.7"));
  EXPECT_THAT(MatchSocketInterfaces(TrainingHost(), "ens", {}),
              ElementsAre("10.0.0.7", "10.0.1.7"));
  EXPECT_THAT(MatchSocketInterfaces(TrainingHost(), "lo", {}), ElementsAre("127.0.0.1"));
}

TEST(MatchSocketInterfaces, TakesNothingWhereNothingMatches) {
  for (const char* value : {"", ",", ",,", "ib", "ens1f0x", "f0"}) {
    EXPECT_THAT(MatchSocketInterfaces(TrainingHost(), value, {}), IsEmpty()) << value;
  }
}

TEST(MatchSocketInterfaces, NeverTakesTheInterfaceOfACard) {
  EXPECT_THAT(MatchSocketInterfaces(TrainingHost(), "en", {"enp19s0d4"}),
              ElementsAre("192.0.2.7", "10.0.0.7", "10.0.1.7"));
}

TEST(GaudiInterfaces, AreKnownByTheirDriver) {
  const TempFolder sysfs;
  const auto add = [&](const std::string& interface, const std::string& driver) {
    const std::string device = sysfs.path() + "/class/net/" + interface + "/device";
    std::filesystem::create_directories(device);
    std::filesystem::create_symlink("../../../bus/pci/drivers/" + driver, device + "/driver");
  };
  add("eno1", "ice");
  add("enp19s0d4", "habanalabs_en");
  EXPECT_THAT(GaudiInterfaces(TrainingHost(), sysfs.path()), ElementsAre("enp19s0d4"));
}

}  // namespace
}  // namespace muster
