// A real muster-shim holds the rendezvous port until its ranks start, and leaves it to them clean.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <vector>

#include "agent/shim/lease.h"
#include "tests/process/shim/shim_client.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

sockaddr_in6 Loopback(int family, uint32_t port) {
  sockaddr_in6 storage = {};
  if (family == AF_INET6) {
    storage.sin6_family = AF_INET6;
    storage.sin6_addr = in6addr_loopback;
    storage.sin6_port = htons(static_cast<uint16_t>(port));
    return storage;
  }
  auto& address = reinterpret_cast<sockaddr_in&>(storage);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return storage;
}

// A connection to the port, or nothing with errno.
UniqueFd Connect(int family, uint32_t port) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in6 address = Loopback(family, port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fd.Reset();
  }
  return fd;
}

// A socket that listens on 127.0.0.1; `port` 0: any.
UniqueFd Listen(uint32_t& port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address = Loopback(AF_INET, port);
  socklen_t length = sizeof(sockaddr_in);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(fd.get(), 1) != 0) {
    fd.Reset();
    return fd;
  }
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
  port = ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
  return fd;
}

class ShimPort : public ::testing::Test {
 protected:
  ShimPort() { shim_.bootstrap.set_reserve_port(true); }
  const internal::ShimPrepared& Prepared() {
    return shim_.WaitFor([](const auto& r) { return r.has_prepared(); }, 0)->prepared();
  }
  AttemptFolder folder_;
  ShimClient shim_{folder_.path(), "a", folder_.path() + "/leases"};
};

TEST_F(ShimPort, IsHeldAndAnswersUntilTheAttemptEnds) {
  shim_.AddProbe({});
  ASSERT_TRUE(shim_.StartAndPrepare()) << shim_.Problems();
  uint32_t port = Prepared().port();
  for (int i = 0; i < 200; ++i) {
    const UniqueFd connection = Connect(AF_INET, port);
    ASSERT_TRUE(connection) << i;
    char byte = 0;
    // Ended at once, and with a reset: an end in order would leave the port in TIME_WAIT here.
    ASSERT_EQ(::recv(connection.get(), &byte, 1, 0), -1);
    ASSERT_EQ(errno, ECONNRESET);
  }
  const UniqueFd ipv6(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (ipv6 && Connect(AF_INET6, 1).valid() == false && errno == ECONNREFUSED) {
    EXPECT_TRUE(Connect(AF_INET6, port));
  }
  EXPECT_FALSE(Listen(port)) << "held against every other program";
  shim_.Stop(0);
  ASSERT_NE(shim_.WaitStopped(), nullptr);
  EXPECT_FALSE(Connect(AF_INET, port));
  EXPECT_TRUE(Listen(port));
}

// As torch's TCPStore would without SO_REUSEADDR: the hardest case.
TEST_F(ShimPort, ARankBindsItAtOnceAfterProbes) {
  shim_.AddRank(
      {"/usr/bin/python3", "-S", "-c",
       "import os, socket\n"
       "for family, any in ((socket.AF_INET, '0.0.0.0'), (socket.AF_INET6, '::')):\n"
       "    if family == socket.AF_INET6 and not os.path.exists('/proc/net/if_inet6'): continue\n"
       "    s = socket.socket(family)\n"
       "    if family == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, "
       "1)\n"
       "    s.bind((any, int(os.environ['MASTER_PORT'])))\n"
       "    s.listen()\n"
       "print([os.readlink('/proc/self/fd/' + n)[:6] for n in sorted(os.listdir('/proc/self/fd'))"
       " if os.path.exists('/proc/self/fd/' + n)].count('socket'))\n"});
  ASSERT_TRUE(shim_.StartAndPrepare()) << shim_.Problems();
  const uint32_t port = Prepared().port();
  // Ended by the shim, ended by the prober, and still open when the ranks start.
  std::vector<UniqueFd> open;
  for (int i = 0; i < 50; ++i) {
    Connect(AF_INET, port);
    open.push_back(Connect(AF_INET, port));
    ASSERT_TRUE(open.back());
  }
  shim_.Run({"MASTER_PORT=" + std::to_string(port)});
  const auto* exited = shim_.WaitExited(0);
  ASSERT_NE(exited, nullptr);
  ASSERT_NE(shim_.WaitLogClosed(0), nullptr);
  EXPECT_EQ(exited->value(), 0) << shim_.Log(0).both;
}

TEST_F(ShimPort, IsNotInheritedByRanks) {
  shim_.AddRank({"/bin/sh", "-c", "ls -l /proc/self/fd | grep -c socket; true"});
  ASSERT_TRUE(shim_.StartAndPrepare()) << shim_.Problems();
  shim_.Run();
  ASSERT_NE(shim_.WaitLogClosed(0), nullptr);
  EXPECT_EQ(shim_.Log(0).stdout_bytes, "0\n");
}

TEST_F(ShimPort, AGivenPortThatIsBusyIsNamed) {
  uint32_t port = 0;
  const UniqueFd listener = Listen(port);
  ASSERT_TRUE(listener);
  shim_.AddProbe({});
  shim_.bootstrap.set_port(port);
  EXPECT_FALSE(shim_.StartAndPrepare());
  EXPECT_THAT(shim_.Problems(),
              HasSubstr("port: port " + std::to_string(port) + " is in use by another program"));
}

TEST(CompanionPort, IsSwappedAsTheLibraryDoes) {
  EXPECT_EQ(shim::CompanionPort(29500), 41075);
  EXPECT_EQ(shim::CompanionPort(12345), 40240);
}

TEST_F(ShimPort, ABusyCompanionOfAGivenPortIsAWarning) {
  uint32_t port = 29750;
  uint32_t companion = shim::CompanionPort(port);
  const UniqueFd listener = Listen(companion);
  if (!listener) GTEST_SKIP() << "port " << companion << " is in use";
  shim_.AddProbe({});
  shim_.bootstrap.set_reserve_companion_port(true);
  shim_.bootstrap.set_port(port);
  ASSERT_TRUE(shim_.StartAndPrepare()) << shim_.Problems();
  EXPECT_EQ(Prepared().port(), port);
  EXPECT_THAT(Prepared().warnings(), ElementsAre(HasSubstr(std::to_string(companion))));
}

TEST_F(ShimPort, APortWithAFreeCompanionIsPreferred) {
  shim_.AddProbe({});
  shim_.bootstrap.set_reserve_companion_port(true);
  ASSERT_TRUE(shim_.StartAndPrepare()) << shim_.Problems();
  const uint32_t first = Prepared().port();
  EXPECT_THAT(Prepared().warnings(), IsEmpty());
  shim_.Stop(0);
  ASSERT_NE(shim_.WaitStopped(), nullptr);

  uint32_t companion = shim::CompanionPort(first);
  const UniqueFd listener = Listen(companion);
  ASSERT_TRUE(listener);
  ShimClient with(folder_.path(), "b", folder_.path() + "/leases");
  with.bootstrap.set_reserve_port(true);
  with.AddProbe({});
  with.bootstrap.set_reserve_companion_port(true);
  ASSERT_TRUE(with.StartAndPrepare()) << with.Problems();
  const auto& prepared =
      with.WaitFor([](const auto& r) { return r.has_prepared(); }, 0)->prepared();
  EXPECT_GT(prepared.port(), first);
  EXPECT_THAT(prepared.warnings(), IsEmpty());
  // Where nobody asks for a companion nothing depends on it.
  ShimClient without(folder_.path(), "c", folder_.path() + "/leases");
  without.bootstrap.set_node_id("node-2");
  without.bootstrap.set_reserve_port(true);
  without.AddProbe({});
  ASSERT_TRUE(without.StartAndPrepare()) << without.Problems();
  EXPECT_EQ(without.WaitFor([](const auto& r) { return r.has_prepared(); }, 0)->prepared().port(),
            first);
}

}  // namespace
}  // namespace muster::testing
