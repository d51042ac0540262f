// Runs the real launcher with the real shim on an event loop of the test, and collects what it
// tells.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/supervise/shim_launcher.h"
#include "common/io/event_loop.h"
#include "tests/process/agent/temp_directory.h"

namespace muster {

class LauncherTest : public ::testing::Test, protected Launcher::Observer {
 protected:
  LauncherTest();
  ~LauncherTest() override;

  // A new launcher on the same directory, as a new agent would have. The old one is gone without a
  // word.
  void Restart();
  // Runs the loop until `done` or the deadline; true when `done`.
  bool Wait(const std::function<bool()>& done,
            std::chrono::seconds limit = std::chrono::seconds(30));

  // A bootstrap with one rank per shell script; marks and PATH are set.
  internal::ShimBootstrap Scripts(const AttemptId& id,
                                  const std::vector<std::string>& scripts) const;
  // Launches, waits until it is prepared, and starts the ranks.
  void Start(const AttemptId& id, const std::vector<std::string>& scripts);

  bool Saw(const AttemptId& id, internal::ShimRecord::BodyCase body, size_t times = 1) const;
  bool Gone(const AttemptId& id) const { return gone_.contains(id); }
  // Process number of the shim; 0 before it began.
  int ShimPid(const AttemptId& id) const;
  std::string Directory(const AttemptId& id) const;
  // The text of a file that a rank wrote, once it ends with a newline; fails after a while.
  std::string WaitForLine(const std::string& path);

  void OnRecord(const AttemptId& id, const internal::ShimRecord& record) override;
  void OnGone(const AttemptId& id, const std::string& reason) override;

  TempDirectory temp_;
  EventLoop loop_;
  ShimLauncherOptions options_;
  std::unique_ptr<ShimLauncher> launcher_;
  std::map<AttemptId, std::vector<internal::ShimRecord>> records_;
  std::map<AttemptId, std::string> gone_;
  std::vector<AttemptId> launched_;
};

bool ProcessLives(int pid);
bool Exists(const std::string& path);

}  // namespace muster
