#include "coordinator/trust/ip_address.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

bool Fits(std::string_view network, std::string_view address) {
  const auto parsed = ParseIpNetwork(network);
  const auto inside = ParseIpAddress(address);
  EXPECT_TRUE(parsed && inside) << network << " " << address;
  return parsed && inside && Contains(*parsed, *inside);
}

TEST(IpNetwork, ContainsItsAddresses) {
  EXPECT_TRUE(Fits("10.0.0.0/8", "10.255.0.1"));
  EXPECT_FALSE(Fits("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(Fits("10.1.2.128/25", "10.1.2.200"));
  EXPECT_FALSE(Fits("10.1.2.128/25", "10.1.2.127"));
  EXPECT_TRUE(Fits("192.0.2.1", "192.0.2.1"));
  EXPECT_FALSE(Fits("192.0.2.1", "192.0.2.2"));
  EXPECT_TRUE(Fits("0.0.0.0/0", "1.2.3.4"));
  EXPECT_TRUE(Fits("2001:db8::/32", "2001:db8:1::1"));
  EXPECT_FALSE(Fits("2001:db8::/32", "2001:db9::1"));
}

TEST(IpNetwork, TakesWrappedIpv4ForIpv4) {
  EXPECT_TRUE(Fits("10.0.0.0/8", "::ffff:10.1.2.3"));
  EXPECT_FALSE(Fits("0.0.0.0/0", "::1"));
  EXPECT_FALSE(Fits("::/0", "1.2.3.4"));
}

TEST(IpNetwork, RefusesWhatIsNone) {
  for (const char* text :
       {"", "/", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "10.0.0.1/8", "10.0.0/8",
        "::1/64", "::/129", "head/8", "10.0.0.0/0008"}) {
    EXPECT_FALSE(ParseIpNetwork(text)) << text;
  }
  EXPECT_FALSE(ParseIpAddress(std::string_view("10.0.0.1\0", 9)));
}

TEST(IpOwner, IsTheAddressOrHalfOfIt) {
  EXPECT_EQ(IpOwner("2001:db8::1"), IpOwner("2001:db8::ffff:1"));
  EXPECT_NE(IpOwner("2001:db8::1"), IpOwner("2001:db8:0:1::1"));
  EXPECT_NE(IpOwner("10.0.0.1"), IpOwner("10.0.0.2"));
  EXPECT_EQ(IpOwner("10.0.0.1"), IpOwner("::ffff:10.0.0.1"));
}

}  // namespace
}  // namespace muster
