// Connections through a real Unix socket.
#include "coordinator/rpc/accept_loop.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel_posix.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

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

// Users of this machine that connect to the socket of a group. It takes root to be them.
class GroupSocketTest : public AcceptLoopTest {
 protected:
  static constexpr uid_t kAlice = 61001;
  static constexpr uid_t kBob = 61002;
  static constexpr uid_t kNameless = 61003;
  static constexpr gid_t kGroup = 61000;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "it takes root to be two users";
    AcceptLoopTest::SetUp();
    ASSERT_EQ(::chmod(folder_.c_str(), 0711), 0);
  }
  void TearDown() override {
    LetGo();
    if (coordinator_) AcceptLoopTest::TearDown();
  }
  CoordinatorConfig Config() override {
    CoordinatorConfig config = RpcWorld::Config();
    SocketGroup group{.gid = kGroup, .account_name = [this](uid_t uid) { return NameOf(uid); }};
    group.lookups.limit = std::chrono::milliseconds(200);
    auto listener = AcceptLoop::Listen(Socket(), std::move(group));
    EXPECT_TRUE(listener.ok()) << listener.status();
    config.listener = *std::move(listener);
    return config;
  }
  // The user database: it hangs for alice.
  std::string NameOf(uid_t uid) {
    if (uid == kBob) return "bob";
    if (uid != kAlice) return std::to_string(uid);
    std::unique_lock lock(mutex_);
    ++hanging_;
    wake_.wait(lock, [this] { return let_go_; });
    --hanging_;
    wake_.notify_all();
    return "alice";
  }
  void LetGo() {
    std::unique_lock lock(mutex_);
    let_go_ = true;
    wake_.notify_all();
    wake_.wait(lock, [this] { return hanging_ == 0; });
  }
  // What a user is told. Connects on a thread that has the user's ids, which in Linux are each
  // thread's own.
  grpc::Status ListNodesAs(uid_t uid) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int result = -1;
    std::thread([&] {
      ::syscall(SYS_setgroups, 0, nullptr);
      ::syscall(SYS_setresgid, kGroup, kGroup, kGroup);
      ::syscall(SYS_setresuid, uid, uid, uid);
      sockaddr_un address = {};
      address.sun_family = AF_UNIX;
      Socket().copy(address.sun_path, sizeof address.sun_path - 1);
      result = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    }).join();
    EXPECT_EQ(result, 0);
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
    const auto stub = v1::NodeService::NewStub(grpc::CreateInsecureChannelFromFd("group", fd));
    const auto context = MakeContext();
    v1::ListNodesResponse response;
    return stub->ListNodes(context.get(), {}, &response);
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool let_go_ = false;
  int hanging_ = 0;
};

TEST_F(GroupSocketTest, WhoseNameIsNotFoundInTimeHoldsUpNobodyAndIsTold) {
  grpc::Status alice;
  std::thread waits([&] { alice = ListNodesAs(kAlice); });
  EXPECT_TRUE(ListNodesAs(kBob).ok());
  EXPECT_TRUE(ListNodes(Socket()).ok());
  waits.join();
  EXPECT_EQ(alice.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(alice.error_message(),
            "who you are is not known: the user database of this machine did not find uid 61001 "
            "within 200 ms");
}

TEST_F(GroupSocketTest, WhoHasNoNameIsTold) {
  const grpc::Status status = ListNodesAs(kNameless);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(status.error_message(),
            "who you are is not known: uid 61003 has no name on this machine");
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
