#include "coordinator/core/check_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/annotate.h"
#include "coordinator/core/proto_time.h"

namespace muster {
namespace {

constexpr size_t kMostRuns = 8;
// How much longer an answer may take than the agent was given for it.
constexpr Duration kTravel = std::chrono::milliseconds(500);
// For connecting, and for the listening end to be there.
constexpr Duration kNetworkMargin = std::chrono::seconds(5);

std::string Described(Duration limit) {
  return fmt::format("{} ms", std::chrono::duration_cast<std::chrono::milliseconds>(limit).count());
}

}  // namespace

struct CheckDesk::Run {
  CheckHandle handle = CheckHandle::kNone;
  Request request;
  CheckListener* listener = nullptr;
  // Per target; empty while it has not reported, or if it never will.
  std::vector<std::optional<v1::NodeReport>> reports;
  size_t missing = 0;
  // Of the network test.
  std::vector<size_t> testable;
  uint32_t half_rounds = 0;
  size_t pairs_left = 0;
};

CheckDesk::CheckDesk(Executor& executor, SendTo send, Random random)
    : executor_(executor), send_(std::move(send)), random_(std::move(random)) {}

CheckDesk::~CheckDesk() {
  for (const auto& [id, awaited] : awaited_) executor_.Cancel(awaited.timer);
}

absl::StatusOr<CheckHandle> CheckDesk::Begin(Request request, CheckListener* listener) {
  if (runs_.size() >= kMostRuns) {
    return absl::FailedPreconditionError(fmt::format(
        "nodes are being checked by {} others: try again when one of them is done", kMostRuns));
  }
  auto run = std::make_unique<Run>();
  run->handle = CheckHandle{++last_};
  run->request = std::move(request);
  run->listener = listener;
  run->reports.resize(run->request.targets.size());
  const CheckHandle handle = run->handle;
  runs_[handle] = std::move(run);
  Post(handle, [this](Run& begun) { CheckNodes(begun); });
  return handle;
}

void CheckDesk::Cancel(CheckHandle handle) {
  runs_.erase(handle);
  for (auto it = awaited_.begin(); it != awaited_.end();) {
    if (it->second.run != handle) {
      ++it;
      continue;
    }
    executor_.Cancel(it->second.timer);
    it = awaited_.erase(it);
  }
}

void CheckDesk::OnReport(const NodeId& node, v1::CheckReport report) {
  const auto found = awaited_.find(report.check_id());
  if (found == awaited_.end() || found->second.node != node) return;
  const std::string id = report.check_id();
  if (!report.error().empty()) return Answer(id, absl::UnavailableError(report.error()));
  Answer(id, std::move(report));
}

void CheckDesk::OnGone(const NodeId& node) {
  std::vector<std::string> ids;
  for (const auto& [id, awaited] : awaited_) {
    if (awaited.node == node) ids.push_back(id);
  }
  for (const std::string& id : ids) {
    Answer(id, absl::UnavailableError("its agent lost contact during the check"));
  }
}

void CheckDesk::Ask(Run& run, const NodeId& node, v1::RunCheck check, Duration limit,
                    OnAnswer on_answer) {
  const std::string id = fmt::format("{:016x}", random_());
  check.set_check_id(id);
  *check.mutable_limit() = ToProtoDuration(limit);
  if (!send_(node, std::move(check))) {
    return Post(run.handle, [on_answer = std::move(on_answer)](Run& asking) {
      on_answer(asking, absl::UnavailableError("its agent is not in contact"));
    });
  }
  Awaited& awaited = awaited_[id];
  awaited.run = run.handle;
  awaited.node = node;
  awaited.on_report = std::move(on_answer);
  awaited.timer =
      executor_.PostAfter(limit + kTravel, [this, id, limit, alive = std::weak_ptr<int>(alive_)] {
        if (alive.expired()) return;
        Answer(id, absl::DeadlineExceededError(
                       fmt::format("it did not answer within {}", Described(limit))));
      });
}

void CheckDesk::Answer(const std::string& check_id, absl::StatusOr<v1::CheckReport> report) {
  auto node = awaited_.extract(check_id);
  if (node.empty()) return;
  executor_.Cancel(node.mapped().timer);
  const auto run = runs_.find(node.mapped().run);
  if (run != runs_.end()) node.mapped().on_report(*run->second, std::move(report));
}

void CheckDesk::CheckNodes(Run& run) {
  run.missing = run.request.targets.size();
  // Some answers come from inside, so it must not end while it is sent.
  const CheckHandle handle = run.handle;
  if (run.missing == 0) return Compare(run);
  for (size_t i = 0; i < run.request.targets.size(); ++i) {
    const NodeToCheck& target = run.request.targets[i];
    if (!target.error.empty()) {
      Post(handle, [this, i, error = target.error](Run& checked) {
        OnNodeReport(checked, i, absl::UnavailableError(error));
      });
      continue;
    }
    v1::RunCheck check;
    *check.mutable_node()->mutable_launch() = target.launch;
    Ask(run, target.node, std::move(check), run.request.limit,
        [this, i](Run& checked, absl::StatusOr<v1::CheckReport> report) {
          OnNodeReport(checked, i, std::move(report));
        });
  }
}

void CheckDesk::OnNodeReport(Run& run, size_t index, absl::StatusOr<v1::CheckReport> report) {
  const NodeToCheck& target = run.request.targets[index];
  v1::CheckNodesResponse response;
  v1::CheckedNode& node = *response.mutable_node();
  node.set_host(target.host);
  node.set_node_id(target.node.value());
  if (!report.ok()) {
    node.set_error(std::string(MessageOf(report.status())));
  } else if (!report->has_node()) {
    node.set_error("its agent answered something else");
  } else {
    run.reports[index] = report->node();
    *node.mutable_report() = std::move(*report->mutable_node());
    if (target.fault) *node.mutable_report()->add_results() = *target.fault;
  }
  const bool last = --run.missing == 0;
  const CheckHandle handle = run.handle;
  run.listener->OnFound(std::move(response));
  // It may have been cancelled there.
  const auto still = runs_.find(handle);
  if (last && still != runs_.end()) Compare(*still->second);
}

void CheckDesk::Compare(Run& run) {
  std::vector<ComparedNode> nodes;
  for (size_t i = 0; i < run.reports.size(); ++i) {
    if (!run.reports[i]) continue;
    const NodeToCheck& target = run.request.targets[i];
    nodes.push_back({target.host, &*run.reports[i], target.clock_offset});
    run.testable.push_back(i);
  }
  v1::CheckNodesResponse response;
  v1::NodeReport& cluster = *response.mutable_cluster();
  for (v1::CheckResult& result : CompareNodes(nodes, run.request.options)) {
    *cluster.add_results() = std::move(result);
  }
  for (std::optional<v1::NodeReport>& report : run.reports) report.reset();
  const CheckHandle handle = run.handle;
  run.listener->OnFound(std::move(response));
  const auto still = runs_.find(handle);
  if (still != runs_.end()) NextHalfRound(*still->second);
}

void CheckDesk::NextHalfRound(Run& run) {
  // The first half of a round sends one way, the second the other.
  while (run.half_rounds < 2 * run.request.network_rounds) {
    const uint32_t half = run.half_rounds++;
    const Pairs pairs = PairsOfRound(run.testable.size(), half / 2);
    if (pairs.empty()) continue;
    run.pairs_left = pairs.size();
    for (const auto& [a, b] : pairs) {
      const size_t first = run.testable[a];
      const size_t second = run.testable[b];
      half % 2 == 0 ? TestPair(run, first, second) : TestPair(run, second, first);
    }
    return;
  }
  Finish(run);
}

void CheckDesk::TestPair(Run& run, size_t from, size_t to) {
  const Duration limit = run.request.network_duration + kNetworkMargin;
  std::string token;
  while (token.size() < 32) token += fmt::format("{:016x}", random_());
  v1::RunCheck listen;
  listen.mutable_listen()->set_token(token);
  Ask(run, run.request.targets[to].node, std::move(listen), limit,
      [this, from, to, token, limit](Run& testing, absl::StatusOr<v1::CheckReport> listening) {
        if (!listening.ok()) {
          return PairDone(testing, from, to,
                          Annotate(listening.status(), testing.request.targets[to].host));
        }
        v1::RunCheck send;
        v1::NetworkConnect& connect = *send.mutable_connect();
        *connect.mutable_addresses() = listening->listening().addresses();
        connect.set_port(listening->listening().port());
        connect.set_token(token);
        *connect.mutable_duration() = ToProtoDuration(testing.request.network_duration);
        Ask(testing, testing.request.targets[from].node, std::move(send), limit,
            [this, from, to](Run& sending, absl::StatusOr<v1::CheckReport> report) {
              if (!report.ok()) {
                return PairDone(sending, from, to,
                                Annotate(report.status(), sending.request.targets[from].host));
              }
              PairDone(sending, from, to, report->rate());
            });
      });
}

void CheckDesk::PairDone(Run& run, size_t from, size_t to, absl::StatusOr<v1::NetworkRate> rate) {
  v1::CheckNodesResponse response;
  v1::CheckedPair& pair = *response.mutable_pair();
  pair.set_from(run.request.targets[from].host);
  pair.set_to(run.request.targets[to].host);
  pair.mutable_result()->set_check("network");
  pair.mutable_result()->set_verdict(rate.ok() ? v1::PASS : v1::FAIL);
  if (rate.ok()) {
    *pair.mutable_rate() = *std::move(rate);
  } else {
    pair.mutable_result()->set_message(std::string(MessageOf(rate.status())));
    pair.mutable_result()->set_fix(
        "look at routes and firewalls between the two: nodes need to "
        "reach each other on any port");
  }
  const bool last = --run.pairs_left == 0;
  const CheckHandle handle = run.handle;
  run.listener->OnFound(std::move(response));
  const auto still = runs_.find(handle);
  if (last && still != runs_.end()) NextHalfRound(*still->second);
}

void CheckDesk::Finish(Run& run) {
  CheckListener* const listener = run.listener;
  Cancel(run.handle);
  listener->OnChecked(absl::OkStatus());
}

void CheckDesk::Post(CheckHandle handle, std::function<void(Run&)> task) {
  executor_.Post([this, handle, task = std::move(task), alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired()) return;
    const auto run = runs_.find(handle);
    if (run != runs_.end()) task(*run->second);
  });
}

}  // namespace muster
