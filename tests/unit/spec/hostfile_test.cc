#include "coordinator/spec/hostfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/spec/spec_test_util.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ParseHostfile, ReadsWhatEditorsOfTwoSystemsLeaveBehind) {
  EXPECT_EQ(
      Hosts("\xEF\xBB\xBF# lab cluster\r\n"
            "node-1 slots=8\r\n"
            "\r\n"
            "\t# rack b\n"
            "node-2\tslots=8   \n"
            "   node_3 slots=4 max_slots=8\n"
            "4host slots=2 max-slots=2\n"
            "LAB-IDC1-0-141 slots = 8\n"
            "198.51.100.7 slots=8 # spare\n"
            "node-9.example.net slots=1"),
      "node-1:8 node-2:8 node_3:4 4host:2 LAB-IDC1-0-141:8 198.51.100.7:8 node-9.example.net:1");
}

TEST(ParseHostfile, KeepsWhereEachHostWasWritten) {
  Diagnostics diagnostics;
  const auto hosts = ParseHostfile("# x\na slots=1\n\nb[1-2] slots=1\n", "dir/hosts", diagnostics);
  ASSERT_EQ(hosts.size(), 3u);
  EXPECT_EQ(hosts[0].source(), "dir/hosts:2");
  EXPECT_EQ(hosts[1].source(), "dir/hosts:4");
  EXPECT_EQ(hosts[2].source(), "dir/hosts:4");
}

TEST(ParseHostfile, SourceIsTextWhateverTheFileIsCalled) {
  Diagnostics diagnostics;
  const auto hosts = ParseHostfile("a slots=1\n", "b\xFF\nhosts", diagnostics);
  ASSERT_EQ(hosts.size(), 1u);
  EXPECT_EQ(hosts[0].source(), "b\\xff\\nhosts:1");
}

TEST(ParseHostfile, R13RefusesFilesWithoutAnyHost) {
  for (const std::string text : {"", "\n\n", "# nobody home\n\n", "\xEF\xBB\xBF", "   \t\r\n"}) {
    EXPECT_THAT(Hosts(text), HasSubstr("hosts: the hostfile names no host")) << text;
  }
}

TEST(ParseHostfile, RefusesFilesThatAreNoText) {
  EXPECT_THAT(Hosts(std::string("\xFF\xFEn\0o\0", 6)), HasSubstr("UTF-16"));
  EXPECT_THAT(Hosts(std::string("a slots=1\nb\0 slots=1\n", 21)), HasSubstr("hosts:2: NUL"));
  EXPECT_THAT(Hosts("a\x1b[31m slots=1\n"), HasSubstr("control character '\\x1b'"));
}

TEST(ParseHostfile, BareNamesMeanEverySlotOfTheNode) { EXPECT_EQ(Hosts("a\nb\n"), "a:0 b:0"); }

TEST(ParseHostfile, RepeatedBareNamesCountOneRankPerLine) {
  EXPECT_EQ(Hosts("a\na\na\nb\n"), "a:3 b:1");
  EXPECT_EQ(Hosts("a\nb\na\nc slots=4\n"), "a:2 b:1 c:4");
  EXPECT_EQ(Hosts("::1\n[0:0::1]\n"), "::1:2");
}

TEST(ParseHostfile, NamesBothLinesOfDuplicates) {
  EXPECT_THAT(Hosts("a slots=8\nb slots=8\na slots=8\n"),
              HasSubstr("hosts:3: host 'a' is already on line 1"));
  EXPECT_THAT(Hosts("a\na slots=8\n"), HasSubstr("hosts:2: host 'a' is already on line 1"));
  EXPECT_THAT(Hosts("fe80::1 slots=1\n[FE80::0:1] slots=1\n"), HasSubstr("is already on line 1"));
}

TEST(ParseHostfile, KeepsNamesWholeAndTheirCase) {
  EXPECT_EQ(Hosts("worker.1.example.net slots=2\nworker.2.example.net slots=2\n"),
            "worker.1.example.net:2 worker.2.example.net:2");
  EXPECT_EQ(Hosts("A slots=1\na slots=1\n"), "A:1 a:1");
}

TEST(ParseHostfile, ExpandsRangesWithZerosAndInOrder) {
  EXPECT_EQ(Hosts("node-[08-10,12] slots=8\nrack[1-2]-n[1-2] slots=1\n"),
            "node-08:8 node-09:8 node-10:8 node-12:8 rack1-n1:1 rack1-n2:1 rack2-n1:1 rack2-n2:1");
  EXPECT_EQ(Hosts("n[3,1,2] slots=1"), "n3:1 n1:1 n2:1");
  EXPECT_EQ(Hosts("n[098-101] slots=1"), "n098:1 n099:1 n100:1 n101:1");
  EXPECT_EQ(Hosts("n[9-11] slots=1"), "n9:1 n10:1 n11:1");
  EXPECT_EQ(Hosts("10.0.0.[1-2] slots=1"), "10.0.0.1:1 10.0.0.2:1");
  EXPECT_EQ(Hosts("n[0] slots=1"), "n0:1");
  EXPECT_EQ(Hosts("n[1-2]\n"), "n1:0 n2:0");
}

TEST(ParseHostfile, RefusesRangesThatCannotBeMeant) {
  EXPECT_THAT(Hosts("a slots=1\nnode-[4-2] slots=8\n"),
              AllOf(HasSubstr("hosts:2:"), HasSubstr("backwards"), HasSubstr("2-4")));
  EXPECT_THAT(Hosts("node-1 slots=1\nnode-[1-3] slots=8\n"),
              AllOf(HasSubstr("hosts:2:"), HasSubstr("'node-1' is already on line 1")));
  EXPECT_THAT(Hosts("node-1\nnode-[1-3]\n"),
              HasSubstr("hosts:2: host 'node-1' is already on line 1"));
  EXPECT_THAT(Hosts("n[1-3,2] slots=1"), HasSubstr("names 'n2' twice"));
  EXPECT_THAT(Hosts("n[1] slots=1\nn1 slots=1"), HasSubstr("hosts:2:"));
  for (const std::string name :
       {"n[]", "n[1-]", "n[-1]", "n[a-c]", "n[1", "n]1[", "n[1[2]]", "n[1,,2]", "n[1-2-3]",
        "n[1-010]", "n[9999999999999999999]", "-[1-2]", "10.0.0.[250-256]", "n[1,a]"}) {
    EXPECT_THAT(Hosts(name + " slots=1"), HasSubstr("hosts:1:")) << name;
  }
}

TEST(ParseHostfile, BoundsWhatARangeStandsFor) {
  EXPECT_THAT(Hosts("n[1-100001] slots=1"), HasSubstr("more than 100000 hosts"));
  EXPECT_THAT(Hosts("n[1-999999999][1-999999999][1-999999999][1-999999999][1-999999999] slots=1"),
              HasSubstr("more than 100000 hosts"));
  EXPECT_THAT(Hosts("a[1-60000] slots=1\nb[1-60000] slots=1"),
              HasSubstr("hosts:2: more than 100000 hosts"));
  Diagnostics diagnostics;
  EXPECT_EQ(ParseHostfile("n[1-100000] slots=1", "hosts", diagnostics).size(), 100000u);
  EXPECT_TRUE(diagnostics.ok());
}

TEST(ParseHostfile, ReadsIpv6BareAndInBrackets) {
  EXPECT_EQ(Hosts("2001:db8::7 slots=8\n[fe80::1] slots=4\nfe80::2%eth0 slots=1\n"),
            "2001:db8::7:8 fe80::1:4 fe80::2%eth0:1");
}

TEST(ParseHostfile, ExplainsNamesWithAPortOrASlotCount) {
  EXPECT_THAT(Hosts("node-1:8\n"),
              AllOf(HasSubstr("hosts:1:"), HasSubstr("write 'node-1 slots=8'")));
  EXPECT_THAT(Hosts("node-1:2222 slots=8\n"), AllOf(HasSubstr("slots="), HasSubstr("port")));
  EXPECT_THAT(Hosts("[fe80::1]:22 slots=8\n"), HasSubstr("port"));
  EXPECT_THAT(Hosts("node:x slots=8\n"), HasSubstr("neither a host name nor an IPv6 address"));
}

TEST(ParseHostfile, IgnoresUsersWithOneWarningEach) {
  Diagnostics diagnostics;
  const auto hosts = ParseHostfile(
      "trainer@a slots=1\ntrainer@b slots=1\nroot@c slots=1\ntrainer@n[1-2] slots=1\n", "hosts",
      diagnostics);
  EXPECT_TRUE(diagnostics.ok());
  EXPECT_EQ(ShowHosts(hosts), "a:1 b:1 c:1 n1:1 n2:1");
  ASSERT_EQ(diagnostics.warnings.size(), 2u);
  EXPECT_THAT(diagnostics.WarningTexts()[0],
              AllOf(HasSubstr("hosts:1: user 'trainer' is ignored here and on 2 more lines")));
  EXPECT_THAT(diagnostics.WarningTexts()[1], HasSubstr("hosts:3: user 'root'"));
  EXPECT_THAT(Hosts("@a slots=1"), HasSubstr("hosts:1:"));
}

TEST(ParseHostfile, R12RefusesSlotsThatAreNoPositiveNumber) {
  for (const std::string value : {"8x", "0", "-1", "-8", "+8", "8.0", "0x8", "eight", "4097",
                                  "99999999999999999999", "8,8", "1e1"}) {
    EXPECT_THAT(Hosts("a slots=" + value), AllOf(HasSubstr("hosts:1:"), HasSubstr("slots")))
        << value;
  }
  EXPECT_THAT(Hosts("a slots="), HasSubstr("'slots' has no value"));
  EXPECT_THAT(Hosts("a slots"), HasSubstr("hosts:1: expected 'host slots=N', found 'slots'"));
  EXPECT_THAT(Hosts("a 8"), HasSubstr("write slots=8"));
  EXPECT_THAT(Hosts("a =8"), HasSubstr("hosts:1:"));
  EXPECT_THAT(Hosts("a slots=8 slots=8"), HasSubstr("'slots' is given twice"));
  EXPECT_EQ(Hosts("a slots=08"), "a:8");
}

TEST(ParseHostfile, R12RefusesMaxSlotsBelowSlots) {
  EXPECT_THAT(Hosts("a slots=8 max_slots=4"), HasSubstr("hosts:1: max_slots=4 is below slots=8"));
  EXPECT_THAT(Hosts("a max-slots=4 slots=8"), HasSubstr("max_slots=4 is below slots=8"));
  EXPECT_THAT(Hosts("a max_slots=4"), HasSubstr("max_slots needs slots"));
  EXPECT_THAT(Hosts("a slots=2 max-slots=4 max_slots=4"), HasSubstr("given twice"));
}

TEST(ParseHostfile, R12TellsNotesFromMisspeltSlots) {
  for (const std::string key : {"lots", "gpus", "Slots", "slot"}) {
    EXPECT_THAT(Hosts("a " + key + "=8"),
                AllOf(HasSubstr("hosts:1:"), HasSubstr("'" + key + "'"), HasSubstr("slots=N")));
  }
  Diagnostics diagnostics;
  const auto hosts = ParseHostfile("a slots=8 rack=7\nb slots=8 rack=8\n", "hosts", diagnostics);
  EXPECT_EQ(ShowHosts(hosts), "a:8 b:8");
  ASSERT_EQ(diagnostics.warnings.size(), 1u);
  EXPECT_EQ(diagnostics.warnings[0].Text(),
            "hosts:1: 'rack' is not known and ignored (here and on 1 more lines)");
}

TEST(ParseHostfile, ReadsAddressPortAndModules) {
  Diagnostics diagnostics;
  const auto hosts = ParseHostfile(
      "a slots=8 addr=10.1.2.3 port=2222\nb addr = [fe80::1]\nc modules=4-6,7\nd slots=2 "
      "modules=1,0\n",
      "hosts", diagnostics);
  EXPECT_EQ(diagnostics.ErrorText(), "");
  EXPECT_TRUE(diagnostics.warnings.empty());
  EXPECT_EQ(ShowHosts(hosts), "a:8 b:0 c:4[4,5,6,7] d:2[0,1]");
  EXPECT_EQ(hosts[0].address(), "10.1.2.3");
  EXPECT_EQ(hosts[1].address(), "fe80::1");
}

TEST(ParseHostfile, RefusesAddressesPortsAndModulesThatMakeNoSense) {
  for (const std::string pair :
       {"addr=10.1.2.300", "addr=u@h", "addr=n[1-2]", "addr=h:22", "port=x", "port=65536",
        "modules=4-2", "modules=a", "modules=1,,2", "modules=99999", "modules=1-"}) {
    EXPECT_THAT(Hosts("a slots=1 " + pair), HasSubstr("hosts:1:")) << pair;
  }
  EXPECT_THAT(Hosts("a slots=8 modules=0,1"), HasSubstr("modules names 2 cards, but slots=8"));
  EXPECT_THAT(Hosts("n[1-2] slots=8 addr=10.0.0.1"), HasSubstr("stands for 2 hosts"));
}

TEST(ParseHostfile, RefusesInvalidNames) {
  for (const std::string name : {"a,b", "a..b", ".a", "a.", "-a", "a/b", "a$b",
                                 "n\xC3\xB6"
                                 "de",
                                 "10.0.0.300", "1.2.3", "a\xFF", "http://a", "a=b", "a*"}) {
    EXPECT_THAT(Hosts(name + " slots=1"), HasSubstr("hosts:1:")) << name;
  }
  EXPECT_THAT(Hosts("a,b slots=8"), HasSubstr("one host per line"));
  EXPECT_THAT(Hosts(std::string(254, 'a') + " slots=1"), HasSubstr("longer than 253 bytes"));
  EXPECT_EQ(Hosts(std::string(253, 'a') + " slots=1"), std::string(253, 'a') + ":1");
}

TEST(ParseHostfile, ReportsEveryErrorAtOnceInOrder) {
  EXPECT_EQ(Hosts("a slots=8x\nb lots=8\nok slots=1\na,b slots=1\nok slots=2\n"),
            "hosts:1: slots must be a whole number, got '8x'\n"
            "hosts:2: expected 'host slots=N', found unknown key 'lots' (write slots=N)\n"
            "hosts:4: invalid host name 'a,b': one host per line, or a range such as node[1-8,12]\n"
            "hosts:5: host 'ok' is already on line 3 (name each host once)");
}

TEST(ParseHostfile, BoundsTheNumberOfErrors) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "a slots=x\n";
  Diagnostics diagnostics;
  ParseHostfile(text, "hosts", diagnostics);
  EXPECT_EQ(diagnostics.errors.size(), Diagnostics::kMaxKept);
  EXPECT_THAT(diagnostics.ErrorText(), HasSubstr("... and 800 more errors"));
}

TEST(ParseHostfile, BoundsTheSlotsOfAllHosts) {
  EXPECT_THAT(Hosts("n[1-1000] slots=4096"), HasSubstr("4096000 slots together"));
}

}  // namespace
}  // namespace muster
