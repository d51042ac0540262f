#include "coordinator/rpc/authorizer.h"

#include <algorithm>

namespace muster {
namespace {

constexpr MethodRule kRules[] = {
    {"/muster.v1.AgentService/Session", Role::kAgent},
    {"/muster.v1.AgentService/UploadLogs", Role::kAgent},
    // Everybody about the own certificate.
    {"/muster.v1.MemberService/CheckCertificate", Role::kAgent},
    {"/muster.v1.MemberService/CheckCertificate", Role::kSubmitter},
    {"/muster.v1.MemberService/RenewCertificate", Role::kAgent},
    {"/muster.v1.MemberService/RenewCertificate", Role::kSubmitter},
    {"/muster.v1.JobService/SubmitJob", Role::kSubmitter},
    {"/muster.v1.JobService/PlanJob", Role::kSubmitter},
    {"/muster.v1.JobService/GetJob", Role::kSubmitter},
    {"/muster.v1.JobService/ListJobs", Role::kSubmitter},
    {"/muster.v1.JobService/CancelJob", Role::kSubmitter},
    {"/muster.v1.JobService/SignalJob", Role::kSubmitter},
    {"/muster.v1.JobService/WatchJob", Role::kSubmitter},
    {"/muster.v1.JobService/ReadLogs", Role::kSubmitter},
    {"/muster.v1.NodeService/ListNodes", Role::kSubmitter},
    {"/muster.v1.NodeService/CheckNodes", Role::kSubmitter},
    {"/muster.v1.TrustService/CreateToken", Role::kAdmin},
    {"/muster.v1.TrustService/ListTokens", Role::kAdmin},
    {"/muster.v1.TrustService/DeleteToken", Role::kAdmin},
    {"/muster.v1.TrustService/ListMembers", Role::kAdmin},
    {"/muster.v1.TrustService/RevokeMember", Role::kAdmin},
    {"/muster.v1.AuthorityService/GetAuthority", Role::kAdmin},
    {"/muster.v1.AuthorityService/RotateAuthority", Role::kAdmin},
};

}  // namespace

std::span<const MethodRule> MethodRules() { return kRules; }

bool IsAllowed(std::string_view method, Role role) {
  if (role == Role::kNobody) return false;
  return std::any_of(std::begin(kRules), std::end(kRules), [&](const MethodRule& rule) {
    return rule.method == method && (role == Role::kAdmin || role == rule.role);
  });
}

}  // namespace muster
