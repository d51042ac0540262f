// The real agent program as a child of a test, and the fixture that lets it serve a scripted
// coordinator.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/process/agent/scripted_coordinator.h"
#include "tests/process/agent/temp_directory.h"

namespace muster {

class AgentProcess {
 public:
  AgentProcess(const std::vector<std::string>& arguments,
               const std::vector<std::string>& variables);
  // Kills it, if it still runs.
  ~AgentProcess();
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  void Signal(int signal);
  // Wait status, or nothing when it does not end within `limit`.
  std::optional<int> Wait(std::chrono::seconds limit = std::chrono::seconds(30));
  void KillNow();
  pid_t pid() const { return pid_; }
  // Resident memory in KiB.
  long ResidentKib() const;
  std::chrono::steady_clock::time_point started() const { return started_; }

 private:
  pid_t pid_ = 0;
  int pidfd_ = -1;
  std::optional<int> status_;
  std::chrono::steady_clock::time_point started_;
};

class AgentTest : public ::testing::Test {
 protected:
  AgentTest();
  ~AgentTest() override;

  void StartAgent(bool ephemeral = false);
  // What one node is to run: `ranks` shells with this script, RANK set.
  v1::Assignment Prepared(const AttemptId& id, uint32_t ranks, const std::string& script);
  // Wants it prepared, waits, and wants it running.
  void Run(const AttemptId& id, uint32_t ranks, const std::string& script);
  void Run(v1::Assignment assignment);
  void Stop(const AttemptId& id, std::chrono::milliseconds grace);
  void Release(const AttemptId& id);

  // Waits for this many events with this body about the attempt.
  bool WaitFor(const AttemptId& id, v1::Event::BodyCase body, size_t times = 1);
  std::vector<v1::Event> Events(const AttemptId& id, v1::Event::BodyCase body) const;
  // Bytes of the rank's stdout, once its log is complete at the coordinator.
  std::string CompleteOutput(const AttemptId& id, uint32_t rank);
  std::string AttemptDirectory(const AttemptId& id) const;
  int ShimPid(const AttemptId& id) const;
  // Waits for a condition of the outside world.
  static bool WaitUntil(const std::function<bool()>& done,
                        std::chrono::seconds limit = std::chrono::seconds(30));

  TempDirectory temp_;
  ScriptedCoordinator coordinator_;
  std::vector<std::string> variables_;
  std::unique_ptr<AgentProcess> agent_;
  std::vector<AttemptId> attempts_;
};

}  // namespace muster
