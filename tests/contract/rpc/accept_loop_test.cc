// Connections through a real Unix socket.
#include "coordinator/rpc/accept_loop.h"

#include <gmock/gmock.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/annotate.h"
#include "common/io/account.h"
#include "common/log/log.h"
#include "common/rpc/channel.h"
#include "tests/contract/rpc/rpc_world.h"

namespace muster {
namespace {

class AcceptLoopTest : public RpcWorld {
 protected:
  CoordinatorConfig Config() override {
    CoordinatorConfig config = RpcWorld::Config();
    absl::StatusOr<std::unique_ptr<AcceptLoop>> listener = AcceptLoop::Listen(Socket());
    EXPECT_TRUE(listener.ok()) << listener.status();
    config.listener = *std::move(listener);
    return config;
  }
  std::string Socket() const { return folder_ + "/sock"; }
  grpc::Status ListNodes(const std::string& path) {
    const auto channel = MakeChannel("unix:" + path);
    EXPECT_TRUE(channel.ok()) << channel.status();
    const auto stub = v1::NodeService::NewStub(*channel);
    const auto context = MakeContext();
    context->set_wait_for_ready(true);
    v1::ListNodesResponse response;
    return stub->ListNodes(context.get(), {}, &response);
  }
};

TEST_F(AcceptLoopTest, ServesPeersOfTheSameUser) {
  const grpc::Status status = ListNodes(Socket());
  EXPECT_TRUE(status.ok()) << status.error_message();
  struct stat info;
  ASSERT_EQ(::stat(Socket().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(AcceptLoopTest, CarriesWholeSessions) {
  const auto channel = MakeChannel("unix:" + Socket());
  ASSERT_TRUE(channel.ok());
  TestAgent agent(*channel, "node-1");
  agent.Join();
  const v1::Job job = Submit({"node-1"}, 1);
  EXPECT_EQ(agent.RunRanks(1).job_id(), job.job_id());
}

TEST_F(AcceptLoopTest, IsGoneAfterStop) {
  coordinator_->Stop();
  EXPECT_NE(::access(Socket().c_str(), F_OK), 0);
}

TEST_F(AcceptLoopTest, RefusesAPlaceInUse) {
  EXPECT_EQ(AcceptLoop::Listen(Socket()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(AcceptLoopTest, ReplacesASocketLeftBehind) {
  const std::string path = folder_ + "/old";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
  EXPECT_TRUE(AcceptLoop::Listen(path).ok());
}

TEST_F(AcceptLoopTest, RefusesAPathThatIsTooLong) {
  const auto listener = AcceptLoop::Listen(folder_ + "/" + std::string(120, 'x'));
  EXPECT_EQ(listener.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AcceptLoopTest, HearsAgainAfterDescriptorsRanOut) {
  // The first uses of the logger's types: a sanitizer looks at them through a pipe, for which there
  // is no descriptor later.
  spdlog::error("descriptors will run out socket={}", LogQuoted(Socket()));
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // The peer connects while there is room; taking the connection then fails in this process.
  const int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  Socket().copy(address.sun_path, sizeof address.sun_path - 1);
  std::vector<int> taken;
  const rlimit small{static_cast<rlim_t>(client) + 8, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.push_back(fd);
  ASSERT_EQ(::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  timeval limit{10, 0};
  ::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char byte;
  EXPECT_EQ(::recv(client, &byte, 1, 0), 0) << "hung up on, not left waiting";
  for (const int fd : taken) ::close(fd);
  ::close(client);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(ListNodes(Socket()).ok());
}

TEST_F(AcceptLoopTest, TakesNobodyForItsOwnProcess) {
  const auto channel = MakeChannel("unix:" + Socket());
  const auto context = MakeContext();
  // Does not help, and does not hurt the peer of the socket either.
  context->AddMetadata("muster-in-process", "guess");
  v1::ListNodesResponse response;
  EXPECT_TRUE(v1::NodeService::NewStub(*channel)->ListNodes(context.get(), {}, &response).ok());
}

TEST(LocalPeers, KnowsTheOwnerRootAndWhoWasLetIn) {
  LocalPeers peers;
  EXPECT_TRUE(peers.IsOwner(::geteuid()));
  EXPECT_TRUE(peers.IsOwner(0));
  EXPECT_FALSE(peers.IsOwner(::geteuid() + 12345));
  EXPECT_EQ(peers.IdentifyConnection("ipv4:192.0.2.1:4711").role, Role::kNobody);
  EXPECT_EQ(peers.IdentifyConnection("fd:7").role, Role::kNobody);
  peers.Accepted(7, ::geteuid());
  EXPECT_EQ(peers.IdentifyConnection("fd:7").role, Role::kAdmin);
  EXPECT_EQ(peers.IdentifyConnection("fd:7").user, AccountName(::geteuid()));
  peers.Accepted(7, ::geteuid() + 12345, "alice");
  EXPECT_EQ(peers.IdentifyConnection("fd:7").role, Role::kSubmitter);
  EXPECT_EQ(peers.IdentifyConnection("fd:7").user, "alice");
}

TEST(MakeChannel, TakesUnixSocketsAndWithCredentialsHostAndPort) {
  EXPECT_TRUE(MakeChannel("unix:/nowhere/sock").ok());
  for (const std::string target : {"", "unix:", "dns:///host:1", "ipv4:1.2.3.4", "host", "host:",
                                   ":1", "[::1]", "::1:7443", "host:x", "a b:1", "http://x:1"}) {
    EXPECT_EQ(MakeChannel(target).status().code(), absl::StatusCode::kInvalidArgument) << target;
  }
  for (const std::string target : {"localhost:50051", "192.0.2.1:7443", "[2001:db8::1]:7443"}) {
    EXPECT_EQ(MakeChannel(target).status().code(), absl::StatusCode::kUnauthenticated) << target;
    grpc::SslCredentialsOptions options;
    EXPECT_TRUE(MakeChannel(target, ChannelUse::kControl, grpc::SslCredentials(options)).ok());
  }
}

}  // namespace
}  // namespace muster
