// What AgentCore promises about its journal: nothing is done or told that it does not hold, and
// ranks can be stopped without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent_core/core_fixture.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(AgentCoreTest, LaunchesNothingThatTheJournalDoesNotHold) {
  StartAgent();
  Connect();
  persist_ = Persist::kFails;
  Assign(Prepare(kJob1));
  EXPECT_TRUE(core_->degraded());
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  queue_.RunFor(seconds(2));
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  persist_ = Persist::kDone;
  queue_.RunFor(seconds(1));
  EXPECT_FALSE(core_->degraded());
  EXPECT_THAT(launcher_->Take(), ElementsAre("launch j1/1"));
}

TEST_F(AgentCoreTest, TellsNoEventThatTheJournalDoesNotHold) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  TakeEvents();
  persist_ = Persist::kFails;
  TellExited(kJob1, 5, 0, 4);
  TellExited(kJob1, 6, 1, 0);
  EXPECT_THAT(TakeEventWords(), IsEmpty());
  persist_ = Persist::kDone;
  queue_.RunFor(seconds(1));
  EXPECT_THAT(TakeEventWords(), ElementsAre("4 exited 0 4", "5 exited 1 0"));
  StartAgent();
  EXPECT_THAT(launcher_->Take(), ElementsAre("adopt j1/1 from 7"));
}

TEST_F(AgentCoreTest, StopsRanksEvenWithoutAJournal) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  persist_ = Persist::kFails;
  Assign(Assignment(kJob1, 3, v1::Assignment::STOPPED));
  EXPECT_THAT(launcher_->Take(), ElementsAre("stop j1/1 grace 3000"));
}

TEST_F(AgentCoreTest, QuitsAndForgetsOnlyWithAJournal) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  persist_ = Persist::kFails;
  TellStopped(kJob1, 5);
  Assign(Assignment(kJob1, 3, v1::Assignment::RELEASED));
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  persist_ = Persist::kDone;
  queue_.RunFor(seconds(1));
  EXPECT_THAT(launcher_->Take(), ElementsAre("release j1/1"));
}

TEST_F(AgentCoreTest, SurvivesACrashAtEveryWriteOfAJob) {
  // The whole life of a job, with the process dying at the n-th write, which did or did not happen.
  for (const Persist how : {Persist::kLost, Persist::kKept}) {
    for (int at = 1; at < 40; ++at) {
      SCOPED_TRACE(fmt::format("write {} {}", at, how == Persist::kLost ? "lost" : "kept"));
      Crash();
      disk_ = {};
      int writes = 0;
      bool crashed = false;
      executor_ = std::make_unique<SimExecutor>(queue_);
      launcher_ = std::make_unique<RecordingLauncher>();
      store_ = std::make_unique<MemoryAgentStore>(disk_, "node-1", [&] {
        if (++writes != at) return Persist::kDone;
        crashed = true;
        return how;
      });
      users_ = std::make_unique<FakeUserGate>(*executor_);
      network_ = std::make_unique<FakeRendezvous>(*executor_);
      core_ = std::make_unique<AgentCore>(*executor_, *store_, *launcher_, *users_, *network_,
                                          observer_, options_);
      ASSERT_TRUE(core_->Start().ok());
      Connect();
      std::vector<v1::Event> told;
      uint64_t index = 0;
      const auto restart_if_crashed = [&] {
        if (!std::exchange(crashed, false)) {
          for (v1::Event& event : TakeEvents()) told.push_back(std::move(event));
          return;
        }
        // What the dead process sent is not heard, except for what an earlier step sent.
        StartAgent();
        Connect({Run(kJob1)}, told.empty() ? 0 : told.back().seq());
        for (v1::Event& event : TakeEvents()) told.push_back(std::move(event));
      };
      const auto tell = [&](auto record_fn) {
        record_fn(++index);
        const bool again = crashed;
        restart_if_crashed();
        // The shim tells again what the journal does not hold.
        if (again) record_fn(index);
        restart_if_crashed();
      };
      Assign(Prepare(kJob1));
      if (std::exchange(crashed, false)) {
        StartAgent();
        Connect({Prepare(kJob1)});
      }
      tell([&](uint64_t i) { TellBegun(kJob1, i); });
      tell([&](uint64_t i) { TellPrepared(kJob1, i); });
      Assign(Run(kJob1));
      restart_if_crashed();
      tell([&](uint64_t i) { TellStarted(kJob1, i, 0); });
      tell([&](uint64_t i) { TellStarted(kJob1, i, 1); });
      tell([&](uint64_t i) { TellExited(kJob1, i, 0, 3); });
      tell([&](uint64_t i) { TellExited(kJob1, i, 1, 0); });
      tell([&](uint64_t i) { TellStopped(kJob1, i); });
      std::vector<std::string> words;
      for (const v1::Event& event : told) {
        words.push_back(fmt::format("{} {}", event.seq(), Word(event)));
      }
      EXPECT_THAT(words, ElementsAre("1 prepared", "2 started 0", "3 started 1", "4 exited 0 3",
                                     "5 exited 1 0", "6 stopped"));
    }
  }
}

TEST_F(AgentCoreTest, RewritesTheJournalWhenItHasGrown) {
  StartAgent();
  Connect();
  RunBoth(kJob1);
  uint64_t most = 0;
  uint64_t seq = 3;
  for (uint64_t index = 5; index < 20'000; ++index) {
    TellLogClosed(kJob1, index, 0, index);
    Ack(++seq);
    most = std::max(most, store_->size_bytes());
  }
  EXPECT_LT(most, 300u * 1024);
  StartAgent();
  EXPECT_EQ(core_->state().acked_seq, seq);
  EXPECT_THAT(launcher_->Take(), ElementsAre("adopt j1/1 from 20000"));
}

TEST_F(AgentCoreTest, FailsToStartWithoutAJournal) {
  executor_ = std::make_unique<SimExecutor>(queue_);
  launcher_ = std::make_unique<RecordingLauncher>();
  disk_.records = {"not a record \xff"};
  store_ = std::make_unique<MemoryAgentStore>(disk_, "node-1");
  users_ = std::make_unique<FakeUserGate>(*executor_);
  network_ = std::make_unique<FakeRendezvous>(*executor_);
  core_ = std::make_unique<AgentCore>(*executor_, *store_, *launcher_, *users_, *network_,
                                      observer_, options_);
  EXPECT_FALSE(core_->Start().ok());
}

}  // namespace
}  // namespace muster::testing
