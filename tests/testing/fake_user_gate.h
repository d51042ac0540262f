// A UserGate that knows the users a test gives it. Answers in a task of its own, or when the test
// says so.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/user_gate.h"
#include "common/base/executor.h"

namespace muster::testing {

class FakeUserGate final : public UserGate {
 public:
  explicit FakeUserGate(Executor& executor) : executor_(executor) {}

  void Admit(const std::string& user, Done done) override {
    asked.push_back(user);
    held_.emplace_back(user, std::move(done));
    if (!hold) Answer();
  }

  // Answers everything that was asked, in a task.
  void Answer() {
    executor_.Post([waiting = std::exchange(held_, {}), known = users] {
      for (const auto& [user, done] : waiting) {
        const auto found = known.find(user);
        done(found == known.end() ? absl::StatusOr<RunAs>(RunAs{}) : found->second);
      }
    });
  }

  // Who is not the agent's own user.
  std::map<std::string, absl::StatusOr<RunAs>> users;
  std::vector<std::string> asked;
  bool hold = false;

 private:
  Executor& executor_;
  std::vector<std::pair<std::string, Done>> held_;
};

}  // namespace muster::testing
