// The Launcher and the SpoolReader of one agent process on a simulated node. Dies with the process:
// nothing that it is asked for afterwards has an effect.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/launcher.h"
#include "agent/session/log_shipper.h"
#include "tests/sim/cluster/fake_host.h"

namespace muster::testing {

class FakeLauncher final : public Launcher, public SpoolReader {
 public:
  FakeLauncher(SimExecutor& process, FakeHost& host, Random& random)
      : process_(process), host_(host), random_(random) {
    host_.SetListener([this](const AttemptId& id) { Wake(id); });
  }
  ~FakeLauncher() override { host_.SetListener(nullptr); }

  void SetObserver(Observer* observer) override { observer_ = observer; }
  std::vector<AttemptId> ListAttempts() override { return host_.Directories(); }

  void Launch(const AttemptId& id, internal::ShimBootstrap bootstrap) override {
    if (!process_.alive()) return;
    const bool used =
        host_.HasDirectory(id) && (host_.ShimAlive(id) || !host_.RecordsFrom(id, 1).empty());
    following_[id] = 1;
    if (used) return Wake(id);
    host_.MakeDirectory(id);
    // An agent may die between the directory and the shim.
    starting_.insert(id);
    process_.PostAfter(Small(), [this, id, bootstrap = std::move(bootstrap)] {
      starting_.erase(id);
      host_.StartShim(id, bootstrap);
      for (Command& command : std::exchange(waiting_[id], {})) command();
    });
  }
  void Adopt(const AttemptId& id, uint64_t next_index) override {
    if (!process_.alive()) return;
    following_[id] = next_index;
    Wake(id);
  }
  void Run(const AttemptId& id, internal::ShimRun run) override {
    Do(id, [this, id, run = std::move(run)] {
      // MASTER_ADDR and MASTER_PORT.
      const auto value = [&](int i) { return run.env(i).substr(run.env(i).find('=') + 1); };
      host_.Run(id, value(0), static_cast<uint32_t>(std::stoul(value(1))));
    });
  }
  void Stop(const AttemptId& id, std::chrono::milliseconds grace) override {
    Do(id, [this, id, grace] { host_.Stop(id, grace); });
  }
  void Signal(const AttemptId& id, int signal, std::vector<uint32_t> ranks) override {
    if (process_.alive()) host_.Signal(id, signal, ranks);
  }
  void Renew(const AttemptId& id, std::chrono::milliseconds lease) override {
    if (process_.alive()) host_.Renew(id, lease);
  }
  void Committed(const AttemptId& id, uint32_t rank, uint64_t bytes) override {
    if (process_.alive()) host_.Committed(id, rank, bytes);
  }
  void Quit(const AttemptId& id) override {
    Do(id, [this, id] { host_.Quit(id); });
  }
  void Sweep(const AttemptId& id, SweepDone done) override {
    if (!process_.alive()) return;
    following_.erase(id);
    process_.PostAfter(
        random_.Between(std::chrono::milliseconds(1), std::chrono::milliseconds(300)),
        [this, id, done = std::move(done)] { done(host_.Sweep(id)); });
  }
  void Release(const AttemptId& id) override {
    if (!process_.alive()) return;
    following_.erase(id);
    host_.Release(id);
  }

  absl::StatusOr<Extent> Stat(const LogFileId& file) override {
    const std::string* const log = host_.Log(file.attempt, file.rank);
    if (log == nullptr) return Extent{};
    return Extent{host_.FirstByte(file.attempt, file.rank), log->size()};
  }
  absl::StatusOr<std::string> Read(const LogFileId& file, uint64_t offset,
                                   uint64_t max_bytes) override {
    const std::string* const log = host_.Log(file.attempt, file.rank);
    if (log == nullptr) return absl::NotFoundError("no such file");
    return log->substr(offset, max_bytes);
  }
  void Forget(const AttemptId&) override {}

 private:
  using Command = std::function<void()>;

  Duration Small() {
    return random_.Between(std::chrono::microseconds(10), std::chrono::milliseconds(5));
  }
  // A command waits for a shim that is being started.
  void Do(const AttemptId& id, Command command) {
    if (!process_.alive()) return;
    if (starting_.contains(id)) {
      waiting_[id].push_back(std::move(command));
    } else {
      command();
    }
  }
  // Delivers what is new of an attempt, a moment later.
  void Wake(const AttemptId& id) {
    if (!following_.contains(id)) return;
    process_.PostAfter(Small(), [this, id] { Deliver(id); });
  }
  void Deliver(const AttemptId& id) {
    if (starting_.contains(id)) return;
    const auto found = following_.find(id);
    if (found == following_.end()) return;
    for (const internal::ShimRecord& record : host_.RecordsFrom(id, found->second)) {
      found->second = record.index() + 1;
      if (observer_ != nullptr) observer_->OnRecord(id, record);
      // A crash at a persist point inside.
      if (!process_.alive()) return;
    }
    if (host_.ShimAlive(id)) return;
    following_.erase(found);
    if (observer_ != nullptr) observer_->OnGone(id, "the process that supervised the ranks died");
  }

  SimExecutor& process_;
  FakeHost& host_;
  Random& random_;
  Observer* observer_ = nullptr;
  // Next record to deliver, per attempt that is followed.
  std::map<AttemptId, uint64_t> following_;
  std::set<AttemptId> starting_;
  std::map<AttemptId, std::vector<Command>> waiting_;
};

}  // namespace muster::testing
