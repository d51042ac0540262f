// Checks of nodes that somebody asked for and that run now: sends RunCheck to agents, gathers their
// reports, and tells whoever asked, node by node, then all of them together, then pair by pair. It
// keeps nothing, stores nothing, and knows no job. Lives on the loop thread.
//
// Life of one: Begin -> every node has reported, or is late, or gone -> comparison -> rounds of the
// network test, if one was asked for: in each all pairs at once, first one direction, then the
// other
// -> OnChecked(OK). However it ends, it is over by its limit (plus the time of the network test).
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "coordinator/core/cluster_check.h"
#include "coordinator/core/pairing.h"
#include "muster/v1/check.pb.h"
#include "muster/v1/node.pb.h"

namespace muster {

// Hears what a check finds. Owned by the caller; on the loop thread.
class CheckListener {
 public:
  virtual ~CheckListener() = default;
  virtual void OnFound(v1::CheckNodesResponse found) = 0;
  // That was all. The listener is not called again.
  virtual void OnChecked(const absl::Status& status) = 0;
};

// Names one check. Never used twice.
enum class CheckHandle : uint64_t { kNone = 0 };

// One node that is to be checked.
struct NodeToCheck {
  std::string host;
  // Empty: no node serves the host.
  NodeId node;
  v1::LaunchSpec launch;
  // Known before: why it cannot be checked.
  std::string error;
  // What the coordinator knows to be wrong with it; told with what the node finds.
  std::optional<v1::CheckResult> fault;
  std::optional<Duration> clock_offset;
};

class CheckDesk {
 public:
  // Sends to the agent of a node; false when it is not in contact.
  using SendTo = std::function<bool(const NodeId&, v1::RunCheck)>;
  // Random bytes, for tokens and ids.
  using Random = std::function<uint64_t()>;

  CheckDesk(Executor& executor, SendTo send, Random random);
  ~CheckDesk();
  CheckDesk(const CheckDesk&) = delete;
  CheckDesk& operator=(const CheckDesk&) = delete;

  struct Request {
    std::vector<NodeToCheck> targets;
    CompareOptions options;
    Duration limit = std::chrono::seconds(10);
    // 0: the network is not tested.
    uint32_t network_rounds = 0;
    Duration network_duration = std::chrono::seconds(1);
  };
  // FAILED_PRECONDITION: too many run. The listener is not called from inside.
  absl::StatusOr<CheckHandle> Begin(Request request, CheckListener* listener);
  // Nobody listens any more. Unknown ones are ignored.
  void Cancel(CheckHandle handle);

  // The agent of `node` has answered. Ignored when nobody waits for it.
  void OnReport(const NodeId& node, v1::CheckReport report);
  // The agent of `node` has gone.
  void OnGone(const NodeId& node);

 private:
  struct Run;
  // An answer that is awaited.
  struct Awaited {
    CheckHandle run = CheckHandle::kNone;
    NodeId node;
    std::function<void(Run&, absl::StatusOr<v1::CheckReport>)> on_report;
    Executor::TimerId timer = 0;
  };
  using OnAnswer = std::function<void(Run&, absl::StatusOr<v1::CheckReport>)>;

  // Sends and calls `on_answer` later, once: with the report, or why there is none.
  void Ask(Run& run, const NodeId& node, v1::RunCheck check, Duration limit, OnAnswer on_answer);
  void Answer(const std::string& check_id, absl::StatusOr<v1::CheckReport> report);
  void CheckNodes(Run& run);
  void OnNodeReport(Run& run, size_t index, absl::StatusOr<v1::CheckReport> report);
  void Compare(Run& run);
  void NextHalfRound(Run& run);
  void TestPair(Run& run, size_t from, size_t to);
  void PairDone(Run& run, size_t from, size_t to, absl::StatusOr<v1::NetworkRate> rate);
  void Finish(Run& run);
  void Post(CheckHandle handle, std::function<void(Run&)> task);

  Executor& executor_;
  const SendTo send_;
  const Random random_;
  uint64_t last_ = 0;
  std::map<CheckHandle, std::unique_ptr<Run>> runs_;
  // By check id.
  std::map<std::string, Awaited> awaited_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace muster
