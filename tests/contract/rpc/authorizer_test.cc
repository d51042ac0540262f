#include "coordinator/rpc/authorizer.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server_builder.h>

#include <set>

#include "common/rpc/server.h"
#include "coordinator/rpc/agent_service.h"
#include "coordinator/rpc/job_service.h"
#include "coordinator/rpc/node_service.h"
#include "coordinator/store/memory_store.h"
#include "tests/contract/rpc/rpc_world.h"

namespace muster {
namespace {

// Every method of the public services.
std::set<std::string> AllMethods() {
  std::set<std::string> methods;
  for (const google::protobuf::FileDescriptor* file :
       {v1::Hello::descriptor()->file(), v1::Job::descriptor()->file(),
        v1::Node::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      const google::protobuf::ServiceDescriptor& service = *file->service(s);
      for (int m = 0; m < service.method_count(); ++m) {
        methods.insert(fmt::format("/{}/{}", service.full_name(), service.method(m)->name()));
      }
    }
  }
  return methods;
}

TEST(Authorizer, HasOneRulePerMethod) {
  std::set<std::string> ruled;
  for (const MethodRule& rule : MethodRules()) {
    EXPECT_TRUE(ruled.insert(std::string(rule.method)).second) << rule.method << " twice";
    EXPECT_NE(rule.role, Role::kNobody) << rule.method;
  }
  EXPECT_EQ(ruled, AllMethods());
}

TEST(Authorizer, DeniesWhatItDoesNotName) {
  for (const Role role : {Role::kNobody, Role::kAgent, Role::kSubmitter, Role::kAdmin}) {
    EXPECT_FALSE(IsAllowed("/muster.v1.JobService/DeleteEverything", role));
    EXPECT_FALSE(IsAllowed("", role));
  }
}

TEST(Authorizer, KeepsRolesApart) {
  for (const std::string& method : AllMethods()) {
    const bool of_agents = method.starts_with("/muster.v1.AgentService/");
    EXPECT_FALSE(IsAllowed(method, Role::kNobody)) << method;
    EXPECT_TRUE(IsAllowed(method, Role::kAdmin)) << method;
    EXPECT_EQ(IsAllowed(method, Role::kAgent), of_agents) << method;
    EXPECT_EQ(IsAllowed(method, Role::kSubmitter), !of_agents) << method;
  }
}

class Strangers final : public PeerDirectory {
 public:
  Peer Identify(const grpc::CallbackServerContext&) const override { return {}; }
};

// The services, asked by somebody unknown.
TEST(Authorizer, IsAskedByEveryMethod) {
  std::string path = testing::TempDir() + "/muster-auth-XXXXXX";
  const std::string folder = mkdtemp(path.data());
  EventLoop loop;
  MemoryStore store(loop);
  const auto logs = LogStore::Open({.directory = folder + "/logs"});
  ASSERT_TRUE(logs.ok());
  CoordinatorCore core({}, loop, store, [] { return uint64_t{1}; });
  ASSERT_TRUE(core.Start().ok());
  const Strangers strangers;
  const ServiceContext services{loop, core, **logs, strangers, {}};
  LogReaderHub hub;
  AgentServiceImpl agent_service(services);
  JobServiceImpl job_service(services, hub);
  NodeServiceImpl node_service(services);
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder);
  builder.RegisterService(&agent_service);
  builder.RegisterService(&job_service);
  builder.RegisterService(&node_service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto channel = server->InProcessChannel(ChannelSettings(ChannelUse::kControl));

  for (const std::string& method : AllMethods()) {
    grpc::GenericStub stub(channel);
    grpc::CompletionQueue queue;
    const auto context = MakeContext();
    const auto call = stub.PrepareCall(context.get(), method, &queue);
    int step = 0;
    const auto await = [&] {
      void* tag = nullptr;
      bool ok = false;
      ASSERT_TRUE(queue.Next(&tag, &ok)) << method;
    };
    call->StartCall(&step);
    await();
    const grpc::Slice nothing("");
    call->Write(grpc::ByteBuffer(&nothing, 1), &step);  // an empty message is one of any type
    await();
    call->WritesDone(&step);
    await();
    grpc::Status status;
    call->Finish(&status, &step);
    await();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << method;
    queue.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
    }
  }
  ShutdownServer(*server, std::chrono::milliseconds(0));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace muster
