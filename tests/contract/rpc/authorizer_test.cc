#include "coordinator/rpc/authorizer.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>

#include <set>
#include <string>

#include "common/rpc/server.h"
#include "coordinator/rpc/agent_service.h"
#include "coordinator/rpc/authority_service.h"
#include "coordinator/rpc/job_service.h"
#include "coordinator/rpc/member_service.h"
#include "coordinator/rpc/node_service.h"
#include "coordinator/rpc/trust_service.h"
#include "coordinator/store/memory_store.h"
#include "tests/contract/rpc/any_call.h"

namespace muster {
namespace {

TEST(Authorizer, HasARuleForEachMethod) {
  std::set<std::string> ruled;
  std::set<std::pair<std::string, Role>> rows;
  for (const MethodRule& rule : MethodRules()) {
    ruled.insert(std::string(rule.method));
    EXPECT_TRUE(rows.emplace(rule.method, rule.role).second) << rule.method << " twice";
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
    const bool of_members = method.starts_with("/muster.v1.MemberService/");
    EXPECT_FALSE(IsAllowed(method, Role::kNobody)) << method;
    EXPECT_TRUE(IsAllowed(method, Role::kAdmin)) << method;
    EXPECT_EQ(IsAllowed(method, Role::kAgent), of_agents || of_members) << method;
    const bool of_admins = method.starts_with("/muster.v1.TrustService/") ||
                           method.starts_with("/muster.v1.AuthorityService/");
    EXPECT_EQ(IsAllowed(method, Role::kSubmitter), !of_agents && !of_admins) << method;
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
  LiveCalls live_calls;
  const ServiceContext services{loop, core, **logs, strangers, live_calls, {}};
  LogReaderHub hub;
  AgentServiceImpl agent_service(services);
  JobServiceImpl job_service(services, hub);
  NodeServiceImpl node_service(services);
  const auto trust_store = TrustStore::Open(folder + "/trust.db");
  ASSERT_TRUE(trust_store.ok()) << trust_store.status();
  const auto audit = AuditLog::Open(folder + "/audit.jsonl");
  ASSERT_TRUE(audit.ok()) << audit.status();
  const SystemClock clock;
  TrustOffice office(**trust_store, **audit, clock, [] { return std::string(32, 'x'); });
  Revocations revocations;
  TrustServiceImpl trust_service(services, office, revocations, {});
  const absl::StatusOr<Trust> trust = InitTrust(folder + "/trust", {}, clock.WallNow());
  ASSERT_TRUE(trust.ok()) << trust.status();
  LiveTrust live(*trust);
  TrustKeeper keeper(folder + "/trust", live, **trust_store, **audit, clock);
  AuthorityServiceImpl authority_service(services, live, keeper);
  MemberOffice member_office(live, **trust_store, **audit, clock);
  MemberServiceImpl member_service(services, member_office, clock, {});
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder);
  builder.RegisterService(&agent_service);
  builder.RegisterService(&job_service);
  builder.RegisterService(&node_service);
  builder.RegisterService(&trust_service);
  builder.RegisterService(&authority_service);
  builder.RegisterService(&member_service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto channel = server->InProcessChannel(ChannelSettings(ChannelUse::kControl));

  for (const std::string& method : AllMethods()) {
    EXPECT_EQ(CallAny(channel, method).error_code(), grpc::StatusCode::PERMISSION_DENIED) << method;
  }
  ShutdownServer(*server, std::chrono::milliseconds(0));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace muster
