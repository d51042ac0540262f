#include "coordinator/core/coordinator_core.h"

#include <utility>

#include "coordinator/core/core_impl.h"

namespace muster {

CoordinatorCore::CoordinatorCore(CoordinatorOptions options, Executor& executor, Store& store,
                                 RandomSource random)
    : impl_(std::make_unique<Impl>(std::move(options), executor, store, std::move(random))) {}
CoordinatorCore::~CoordinatorCore() = default;

absl::Status CoordinatorCore::Start() { return impl_->Start(); }
uint64_t CoordinatorCore::epoch() const { return impl_->epoch(); }
CoordinatorCore::Totals CoordinatorCore::totals() const { return impl_->totals(); }

SessionHandle CoordinatorCore::OnAgentConnected(AgentSink* sink,
                                                std::optional<NodeId> authenticated) {
  return impl_->OnAgentConnected(sink, std::move(authenticated));
}
void CoordinatorCore::OnAgentMessage(SessionHandle session, v1::AgentMessage message) {
  impl_->OnAgentMessage(session, std::move(message));
}
void CoordinatorCore::OnAgentDisconnected(SessionHandle session) {
  impl_->OnAgentDisconnected(session);
}
void CoordinatorCore::GiveUpNode(const NodeId& node, std::string reason) {
  impl_->GiveUpNode(node, std::move(reason));
}
std::optional<NodeId> CoordinatorCore::NodeOfSession(const std::string& session_id) const {
  return impl_->NodeOfSession(session_id);
}

bool CoordinatorCore::MaySee(const JobId& job, const Caller& caller) const {
  return impl_->MaySee(job, caller);
}
void CoordinatorCore::SubmitJob(v1::SubmitJobRequest request, Caller caller, Reply<v1::Job> done) {
  impl_->SubmitJob(std::move(request), std::move(caller), std::move(done));
}
void CoordinatorCore::PlanJob(v1::PlanJobRequest request, Caller caller, Reply<v1::Plan> done) {
  impl_->PlanJob(std::move(request), std::move(caller), std::move(done));
}
void CoordinatorCore::GetJob(v1::GetJobRequest request, Caller caller, Reply<v1::Job> done) {
  impl_->GetJob(std::move(request), std::move(caller), std::move(done));
}
void CoordinatorCore::ListJobs(v1::ListJobsRequest request, Caller caller,
                               Reply<v1::ListJobsResponse> done) {
  impl_->ListJobs(std::move(request), std::move(caller), std::move(done));
}
void CoordinatorCore::CancelJob(v1::CancelJobRequest request, Caller caller, Reply<v1::Job> done) {
  impl_->CancelJob(std::move(request), std::move(caller), std::move(done));
}
void CoordinatorCore::SignalJob(v1::SignalJobRequest request, Caller caller,
                                Reply<v1::SignalJobResponse> done) {
  impl_->SignalJob(std::move(request), std::move(caller), std::move(done));
}
void CoordinatorCore::ListNodes(v1::ListNodesRequest request, Caller caller,
                                Reply<v1::ListNodesResponse> done) {
  impl_->ListNodes(std::move(request), std::move(caller), std::move(done));
}

absl::StatusOr<WatchHandle> CoordinatorCore::WatchJob(const JobId& job, const Caller& caller,
                                                      JobWatcher* watcher) {
  return impl_->WatchJob(job, caller, watcher);
}
absl::StatusOr<CheckHandle> CoordinatorCore::CheckNodes(v1::CheckNodesRequest request,
                                                        const Caller& caller,
                                                        CheckListener* listener) {
  return impl_->CheckNodes(std::move(request), caller, listener);
}
void CoordinatorCore::CancelCheck(CheckHandle check) { impl_->CancelCheck(check); }
std::optional<JobUpdate> CoordinatorCore::TakeUpdate(WatchHandle watch) {
  return impl_->TakeUpdate(watch);
}
void CoordinatorCore::Unwatch(WatchHandle watch) { impl_->Unwatch(watch); }

void CoordinatorCore::OnLogCommitted(const AttemptId& attempt, Rank rank, uint64_t size) {
  impl_->OnLogCommitted(attempt, rank, size);
}
bool CoordinatorCore::MayUpload(const NodeId& node, const AttemptId& attempt, Rank rank) const {
  return impl_->MayUpload(node, attempt, rank);
}
std::optional<CoordinatorCore::JobShape> CoordinatorCore::ShapeOf(const JobId& job) const {
  return impl_->ShapeOf(job);
}
std::optional<RankLogState> CoordinatorCore::LogState(const AttemptId& attempt, Rank rank) const {
  return impl_->LogState(attempt, rank);
}
std::optional<uint64_t> CoordinatorCore::ExpectedLogSize(const AttemptId& attempt,
                                                         Rank rank) const {
  const std::optional<RankLogState> state = impl_->LogState(attempt, rank);
  return state.has_value() ? state->final_size : std::nullopt;
}
bool CoordinatorCore::LogsComplete(const AttemptId& attempt, const std::vector<Rank>& ranks) const {
  return impl_->LogsComplete(attempt, ranks);
}
bool CoordinatorCore::HasEnded(const JobId& job) const { return impl_->HasEnded(job); }
void CoordinatorCore::SetLogListener(std::function<void(const JobId&)> listener) {
  impl_->SetLogListener(std::move(listener));
}
void CoordinatorCore::SetForgetListener(std::function<void(const JobId&)> listener) {
  impl_->SetForgetListener(std::move(listener));
}

}  // namespace muster
