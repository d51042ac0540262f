// What both ends of a connection to the network port ask of TCP.
#include "common/rpc/thin_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <filesystem>

#include "muster/v1/node.grpc.pb.h"
#include "tests/contract/network/network_fixture.h"

namespace muster {
namespace {

using ThinStreamTest = NetworkTest;

// True when a socket of this process is one end of a connection to `port`. gRPC's are of IPv6.
bool IsConnectedTo(int fd, uint16_t port) {
  for (const auto name : {::getpeername, ::getsockname}) {
    sockaddr_in6 address = {};
    socklen_t size = sizeof address;
    if (name(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
    const bool internet = address.sin6_family == AF_INET || address.sin6_family == AF_INET6;
    // At the same place in an address of IPv4.
    if (internet && ntohs(address.sin6_port) == port) return true;
  }
  return false;
}

TEST_F(ThinStreamTest, BothEndsRetrySteadily) {
  const std::shared_ptr<grpc::Channel> channel = Dial(Made(Of(IdentityKind::kAdmin, "root")));
  ASSERT_TRUE(
      channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30)));
  v1::ListNodesResponse response;
  const auto context = MakeContext();
  const grpc::Status status =
      v1::NodeService::NewStub(channel)->ListNodes(context.get(), {}, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();

  int ends = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    if (!IsConnectedTo(fd, port())) continue;
    int steady = 0;
    socklen_t size = sizeof steady;
    ASSERT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &steady, &size), 0);
    EXPECT_EQ(steady, 1) << entry.path();
    ++ends;
  }
  EXPECT_EQ(ends, 2);
}

}  // namespace
}  // namespace muster
