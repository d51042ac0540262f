// A Launcher that does nothing but write down what it is asked for; the test plays the shims.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/launcher.h"

namespace muster::testing {

class RecordingLauncher final : public Launcher {
 public:
  void SetObserver(Observer* observer) override { observer_ = observer; }
  std::vector<AttemptId> ListAttempts() override { return found; }
  void Launch(const AttemptId& id, internal::ShimBootstrap bootstrap) override {
    Note(fmt::format("launch {}", Name(id)));
    bootstraps[id] = std::move(bootstrap);
  }
  void Adopt(const AttemptId& id, uint64_t next_index) override {
    Note(fmt::format("adopt {} from {}", Name(id), next_index));
  }
  void Run(const AttemptId& id, internal::ShimRun run) override {
    std::string line = fmt::format("run {}", Name(id));
    for (const std::string& env : run.env()) line += " " + env;
    Note(line);
  }
  void Stop(const AttemptId& id, std::chrono::milliseconds grace) override {
    Note(fmt::format("stop {} grace {}", Name(id), grace.count()));
  }
  void Signal(const AttemptId& id, int signal, std::vector<uint32_t> ranks) override {
    Note(fmt::format("signal {} {} to {} ranks", Name(id), signal, ranks.size()));
  }
  void Renew(const AttemptId& id, std::chrono::milliseconds lease) override {
    renewals.emplace_back(id, lease);
  }
  void Committed(const AttemptId& id, uint32_t rank, uint64_t bytes) override {
    Note(fmt::format("committed {} {} {}", Name(id), rank, bytes));
  }
  void Quit(const AttemptId& id) override { Note(fmt::format("quit {}", Name(id))); }
  void Sweep(const AttemptId& id, SweepDone done) override {
    Note(fmt::format("sweep {}", Name(id)));
    sweeps[id] = std::move(done);
  }
  void Release(const AttemptId& id) override { Note(fmt::format("release {}", Name(id))); }

  // What was asked for since the last call, renewals left out.
  std::vector<std::string> Take() { return std::exchange(calls_, {}); }

  // --- The test's side ---
  void Tell(const AttemptId& id, const internal::ShimRecord& record) {
    if (observer_ != nullptr) observer_->OnRecord(id, record);
  }
  void Die(const AttemptId& id, const std::string& reason) {
    if (observer_ != nullptr) observer_->OnGone(id, reason);
  }
  void Swept(const AttemptId& id, SweepResult result) {
    const SweepDone done = std::exchange(sweeps[id], nullptr);
    done(std::move(result));
  }

  std::vector<AttemptId> found;
  std::map<AttemptId, internal::ShimBootstrap> bootstraps;
  std::map<AttemptId, SweepDone> sweeps;
  std::vector<std::pair<AttemptId, std::chrono::milliseconds>> renewals;

 private:
  static std::string Name(const AttemptId& id) {
    return fmt::format("{}/{}", id.job.value(), id.attempt);
  }
  void Note(std::string line) { calls_.push_back(std::move(line)); }

  Observer* observer_ = nullptr;
  std::vector<std::string> calls_;
};

}  // namespace muster::testing
