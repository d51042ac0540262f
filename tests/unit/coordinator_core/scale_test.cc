// A thousand nodes with eight ranks each, through one whole life, with agents that answer by
// themselves.
#include <gtest/gtest.h>
#include <time.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/version.h"
#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using std::chrono::seconds;

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Spreads events over time: each arrives alone. Without a spacing they arrive together.
struct Spread {
  Duration spacing{};
  Duration offset{};
  Duration Next() { return offset += spacing; }
};

// Does what it is told, at once; every event is a message of its own.
class EagerAgent final : public AgentSink {
 public:
  EagerAgent(CoordinatorCore& core, Executor& executor, Spread& spread, std::string name, int slots)
      : core_(core), executor_(executor), spread_(spread) {
    session_ = core_.OnAgentConnected(this);
    v1::AgentMessage message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_node_id(name);
    hello.set_agent_instance_id("i");
    hello.set_boot_id("b");
    hello.set_journal_id("j");
    hello.mutable_version()->set_major(kProtocolMajor);
    hello.mutable_facts()->set_hostname(name);
    for (int i = 0; i < slots; ++i) hello.mutable_facts()->add_slots(i);
    core_.OnAgentMessage(session_, std::move(message));
  }

  void Send(v1::CoordinatorMessage message) override {
    const auto obey = [this](v1::Assignment assignment) {
      executor_.Post([this, assignment = std::move(assignment)] { Obey(assignment); });
    };
    if (message.has_assignment()) obey(message.assignment());
    for (const v1::Assignment& assignment : message.snapshot().assignments()) obey(assignment);
  }
  void Close(absl::Status status) override { ADD_FAILURE() << status; }

 private:
  void Obey(const v1::Assignment& assignment) {
    key_ = assignment.key();
    if (assignment.desired() == v1::Assignment::PREPARED) {
      for (const v1::RankSpec& rank : assignment.launch().ranks()) ranks_.push_back(rank.rank());
      v1::Event event;
      event.mutable_prepared()->add_addresses("10.0.0.1");
      Tell(event);
    } else if (assignment.desired() == v1::Assignment::RUNNING) {
      for (uint32_t rank : ranks_) {
        v1::Event event;
        event.mutable_rank_started()->set_rank(rank);
        Tell(event);
      }
      for (uint32_t rank : ranks_) {
        v1::Event event;
        event.mutable_rank_exited()->set_rank(rank);
        event.mutable_rank_exited()->mutable_status()->set_exit_code(0);
        Tell(event);
        v1::Event closed;
        closed.mutable_rank_log_closed()->set_rank(rank);
        Tell(closed);
      }
      v1::Event event;
      event.mutable_attempt_stopped();
      Tell(event);
    }
  }

  void Tell(v1::Event event) {
    event.set_seq(++seq_);
    *event.mutable_key() = key_;
    v1::AgentMessage message;
    *message.mutable_events()->add_events() = std::move(event);
    executor_.PostAfter(spread_.Next(),
                        [this, message] { core_.OnAgentMessage(session_, message); });
  }

  CoordinatorCore& core_;
  Executor& executor_;
  Spread& spread_;
  SessionHandle session_;
  v1::AttemptKey key_;
  std::vector<uint32_t> ranks_;
  uint64_t seq_ = 0;
};

// Keeps what a client would keep.
class Counter final : public JobWatcher {
 public:
  explicit Counter(CoordinatorCore& core) : core_(core) {}
  void OnUpdateReady(WatchHandle watch) override {
    const std::optional<JobUpdate> update = core_.TakeUpdate(watch);
    if (!update.has_value()) return;
    ranks += update->job.ranks_size();
    last = update->last;
  }
  size_t ranks = 0;
  bool last = false;

 private:
  CoordinatorCore& core_;
};

void RunThousandNodes(Spread spread) {
  constexpr int kNodes = 1000, kSlots = 8;
  SimQueue queue;
  SimExecutor executor(queue);
  Disk disk;
  DiskStore store(executor, disk);
  uint64_t random = 0;
  CoordinatorCore core({}, executor, store, [&] { return random += 0x9e3779b97f4a7c15; });
  ASSERT_TRUE(core.Start().ok());
  std::vector<std::string> hosts;
  for (int i = 0; i < kNodes; ++i) hosts.push_back("node-" + std::to_string(i));
  v1::JobSpec spec = World::Spec(hosts, kSlots);
  for (int i = 0; i < 50; ++i) {
    v1::EnvAssignment& env = *spec.add_env();
    env.set_name("VARIABLE_" + std::to_string(i));
    env.add_parts()->set_literal(std::string(40, 'x'));
  }
  const double begin = CpuSeconds();
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  std::string id;
  core.SubmitJob(request, {"alice"}, [&](absl::StatusOr<v1::Job> job) { id = job->job_id(); });
  queue.RunReady();
  Counter counter(core);
  ASSERT_TRUE(core.WatchJob(JobId(id), {"alice"}, &counter).ok());
  std::vector<std::unique_ptr<EagerAgent>> agents;
  for (const std::string& host : hosts) {
    agents.push_back(std::make_unique<EagerAgent>(core, executor, spread, host, kSlots));
    queue.RunReady();
  }
  queue.RunFor(seconds(9));
  const double used = CpuSeconds() - begin;
  EXPECT_TRUE(core.HasEnded(JobId(id)));
  EXPECT_TRUE(counter.last);
  EXPECT_TRUE(core.LogsComplete({JobId(id), 1}, {}));
  printf("1000 nodes x 8 ranks: %.2f CPU seconds, %d commits, %zu rank updates\n", used,
         disk.commits, counter.ranks);
  // Generous: debug builds and sanitizers are an order of magnitude slower than what ships.
  EXPECT_LT(used, 30.0);
}

TEST(Scale, AThousandNodesCostLittle) { RunThousandNodes({}); }

TEST(Scale, AThousandNodesCostLittleEvenWhenEveryEventComesAlone) {
  RunThousandNodes({.spacing = std::chrono::nanoseconds(1)});
}

}  // namespace
}  // namespace muster::testing
