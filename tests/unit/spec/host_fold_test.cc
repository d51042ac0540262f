#include "coordinator/spec/host_fold.h"

#include <gtest/gtest.h>

namespace muster::testing {
namespace {

TEST(FoldHosts, NumbersBecomeRanges) {
  const struct {
    std::vector<std::string> hosts;
    const char* folded;
  } cases[] = {
      {{}, ""},
      {{"alpha"}, "alpha"},
      {{"node1"}, "node1"},
      {{"node1", "node2", "node3", "node9"}, "node1-3,9"},
      {{"node3", "node1", "node2"}, "node1-3"},
      {{"node9", "node10"}, "node9-10"},
      {{"n08", "n09", "n10"}, "n08-10"},
      {{"n8", "n08"}, "n8,n08"},
      {{"node-1", "node-2", "gpu-7"}, "node-1-2,gpu-7"},
      {{"node1-ib", "node2-ib"}, "node[1-2]-ib"},
      {{"node1.lab.example", "node2.lab.example"}, "node[1-2].lab.example"},
      // The last number counts.
      {{"r1n1", "r1n2", "r2n1"}, "r1n1-2,r2n1"},
      {{"10.0.0.1", "10.0.0.2"}, "10.0.0.1,10.0.0.2"},
      {{"fe80::1", "fe80::2"}, "fe80::1,fe80::2"},
      {{"node1", "node1"}, "node1"},
      {{"n12345678901", "n12345678902"}, "n12345678901,n12345678902"},
      {{"alpha", "alpha", "beta"}, "alpha,beta"},
  };
  for (const auto& one : cases) EXPECT_EQ(FoldHosts(one.hosts), one.folded);
}

}  // namespace
}  // namespace muster::testing
