// Answers RunCheck: looks at the node for somebody, without a job. It starts nothing, keeps nothing
// and touches no attempt; a node that is asked too much says so at once. Lives on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/core/compose.h"
#include "agent/core/deed.h"
#include "agent/core/network_tester.h"
#include "agent/core/node_inspector.h"
#include "agent/core/user_gate.h"
#include "common/base/executor.h"
#include "muster/v1/check.pb.h"

namespace muster {

class CheckResponder {
 public:
  // Passes a report on; there may be nobody any more who wants it.
  using Send = std::function<void(v1::CheckReport)>;
  // Hears of every check that looks at what a user has, before it is made.
  using Tell = std::function<void(const Deed&)>;

  // What composing a launch needs, but for attempt and user.
  // Calls `done` once, at once or later.
  using WithContext = std::function<void(const v1::LaunchSpec&, const RunAs&,
                                         std::function<void(ComposeContext)> done)>;

  // References and pointers outlive it; the latter may be null. `context` and `addresses`, those of
  // the node, are asked when they are needed.
  CheckResponder(Executor& executor, UserGate& users, NodeInspector* inspector,
                 NetworkTester* network, WithContext context,
                 std::function<google::protobuf::RepeatedPtrField<std::string>()> addresses,
                 Send send, Tell tell);

  void OnRunCheck(const v1::RunCheck& request);

 private:
  struct Check;

  void Inspect(const std::shared_ptr<Check>& check, const v1::LaunchSpec& launch);
  void InspectAs(const std::shared_ptr<Check>& check, const v1::LaunchSpec& launch,
                 const RunAs& user, ComposeContext context);
  void RunNetwork(const std::shared_ptr<Check>& check, const v1::RunCheck& request);
  // Sends the report, unless it was sent.
  void Report(const std::shared_ptr<Check>& check, v1::CheckReport report);
  void ReportError(const std::shared_ptr<Check>& check, std::string error);

  Executor& executor_;
  UserGate& users_;
  NodeInspector* const inspector_;
  NetworkTester* const network_;
  const WithContext with_context_;
  const std::function<google::protobuf::RepeatedPtrField<std::string>()> addresses_;
  const Send send_;
  const Tell tell_;
  // Checks that were not answered.
  int running_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace muster
