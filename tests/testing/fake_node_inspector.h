// A NodeInspector that finds what a test tells it. Answers in a task of its own, or when the test
// says so.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/core/node_inspector.h"
#include "common/base/executor.h"

namespace muster::testing {

class FakeNodeInspector final : public NodeInspector {
 public:
  explicit FakeNodeInspector(Executor& executor) : executor_(executor) {}

  void Inspect(const InspectionRequest& request, Done done) override {
    asked.push_back(request.attempt.job.value());
    bootstraps.push_back(request.bootstrap);
    held_.push_back(std::move(done));
    if (!hold) Answer();
  }

  // Answers everything that was asked, in a task.
  void Answer() {
    executor_.Post([waiting = std::exchange(held_, {}), found = found] {
      for (const Done& done : waiting) done(found);
    });
  }

  Inspection found;
  std::vector<std::string> asked;
  std::vector<internal::ShimBootstrap> bootstraps;
  bool hold = false;

 private:
  Executor& executor_;
  std::vector<Done> held_;
};

}  // namespace muster::testing
