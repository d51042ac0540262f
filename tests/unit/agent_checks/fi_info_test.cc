// What fi_info says, with the outputs of its documentation.
#include "agent/checks/fi_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(LibfabricVersion, IsThatOfTheLibrary) {
  EXPECT_EQ(LibfabricVersion("fi_info: 1.9.0\nlibfabric: 1.22.0amzn1.0\nlibfabric api: 1.22\n"),
            "1.22.0amzn1.0");
  EXPECT_EQ(LibfabricVersion("fi_info: 1.9.0\n"), "");
}

TEST(FaultOfLibfabric, KnowsWhatGaudiDirectNeeds) {
  for (const char* version : {"1.16.1", "1.22.0amzn1.0", "1.30", "", "unknown"}) {
    EXPECT_EQ(FaultOfLibfabric(version, false), "") << version;
  }
  for (const char* version : {"1.16.0", "1.15.9", "1.9.0", "2.0.0", "2.1"}) {
    EXPECT_THAT(FaultOfLibfabric(version, false), HasSubstr("1.16.1")) << version;
  }
  EXPECT_THAT(FaultOfLibfabric("1.19.1", true), HasSubstr("from 1.20"));
  EXPECT_EQ(FaultOfLibfabric("1.20.0", true), "");
}

TEST(CountReliableDomains, CountsAdaptersAndNotTheirEndpoints) {
  constexpr char kTwo[] =
      "provider: efa\n    fabric: efa\n    domain: rdmap16s27-rdm\n    version: 122.0\n"
      "    type: FI_EP_RDM\n    protocol: FI_PROTO_EFA\n"
      "provider: efa\n    fabric: efa\n    domain: rdmap32s27-rdm\n    type: FI_EP_RDM\n"
      "provider: efa\n    fabric: efa\n    domain: rdmap32s27-rdm\n    type: FI_EP_RDM\n"
      "provider: efa\n    fabric: efa\n    domain: rdmap32s27-dgrm\n    type: FI_EP_DGRAM\n"
      "provider: tcp\n    fabric: 10.0.0.0/24\n    domain: ens5\n    type: FI_EP_RDM\n";
  EXPECT_EQ(CountReliableDomains(kTwo, "efa"), 2u);
  EXPECT_EQ(CountReliableDomains(kTwo, "tcp"), 1u);
  EXPECT_EQ(CountReliableDomains("fi_getinfo: -61 (No data available)\n", "efa"), 0u);
}

}  // namespace
}  // namespace muster
