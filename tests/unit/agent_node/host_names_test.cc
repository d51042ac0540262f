#include "agent/node/host_names.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

struct HostsCase {
  const char* what;
  const char* hosts;
  const char* hostname;
  const char* fqdn;
};

TEST(FqdnFromHostsFile, TakesTheFirstNameWithADotOnTheLineOfTheHost) {
  const HostsCase cases[] = {
      {"canonical name first", "127.0.1.1 node-1.example.org node-1\n", "node-1",
       "node-1.example.org"},
      {"short name first", "192.0.2.1\tnode-1\tnode-1.example.org", "node-1", "node-1.example.org"},
      {"only the qualified name", "192.0.2.1 node-1.example.org\n", "node-1", "node-1.example.org"},
      {"no qualified name", "127.0.0.1 localhost\n192.0.2.1 node-1\n", "node-1", ""},
      {"another host", "192.0.2.2 node-10.example.org node-10\n", "node-1", ""},
      {"comment", "192.0.2.1 node-1 # node-1.example.org\n", "node-1", ""},
      {"later line", "::1 localhost\n192.0.2.1 node-1\n192.0.2.1 node-1.a.b node-1\n", "node-1",
       "node-1.a.b"},
      {"carriage returns", "192.0.2.1 node-1.example.org node-1\r\n", "node-1",
       "node-1.example.org"},
      {"empty file", "", "node-1", ""},
      {"address alone", "192.0.2.1\n", "192", ""},
  };
  for (const HostsCase& one : cases) {
    EXPECT_EQ(FqdnFromHostsFile(one.hosts, one.hostname), one.fqdn) << one.what;
  }
}

TEST(KernelHostname, IsNeverEmpty) { EXPECT_FALSE(KernelHostname().empty()); }

}  // namespace
}  // namespace muster
