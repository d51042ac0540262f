// Jobs that share the cards of a node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using v1::Assignment;

class Cards : public ::testing::Test {
 protected:
  Cards() {
    FakeAgent& agent = world_.Join("node-1", 8);
    agent.hello.mutable_facts()->set_slots_are_cards(true);
    world_.Connect("node-1");
    world_.Settle();
  }
  std::vector<uint32_t> CardsOf(const JobId& job) {
    std::vector<uint32_t> cards;
    const v1::Assignment* assignment = world_.Agent("node-1").Find(job);
    if (assignment == nullptr) return cards;
    for (const v1::RankSpec& rank : assignment->launch().ranks()) cards.push_back(rank.slot());
    return cards;
  }

  World world_;
};

TEST_F(Cards, TwoHalfNodeJobsGetCardsOfTheirOwnAndTheThirdIsToldWhoHasThem) {
  const JobId first = world_.SubmitAndStart(World::Spec({"node-1"}, 4));
  const JobId second = world_.SubmitAndStart(World::Spec({"node-1"}, 4));
  EXPECT_THAT(CardsOf(first), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(CardsOf(second), ElementsAre(4, 5, 6, 7));
  const JobId third = world_.Submit(World::Spec({"node-1"}, 4));
  world_.Settle();
  EXPECT_EQ(world_.Job(third).state(), v1::Job::FAILED);
  EXPECT_THAT(world_.Job(third).reason(),
              AllOf(HasSubstr("node-1"), HasSubstr("cards 0-3: alice, job " + first.value()),
                    HasSubstr("cards 4-7: alice, job " + second.value())));
}

TEST_F(Cards, OfAJobThatIsEndingAreWaitedFor) {
  const JobId first = world_.SubmitAndStart(World::Spec({"node-1"}, 8));
  world_.Exited(0, 1);
  world_.Settle();
  ASSERT_EQ(world_.Job(first).state(), v1::Job::STOPPING);
  v1::JobSpec spec = World::Spec({"node-1"}, 4);
  const JobId second = world_.Submit(spec);
  world_.Settle();
  EXPECT_EQ(world_.Job(second).state(), v1::Job::PENDING) << world_.Job(second).reason();
  EXPECT_THAT(world_.Job(second).reason(), HasSubstr("job " + first.value()));
  v1::Event stopped = world_.EventOf("node-1", 1);
  stopped.mutable_key()->set_job_id(first.value());
  stopped.mutable_attempt_stopped();
  world_.Tell("node-1", stopped);
  world_.Settle();
  EXPECT_EQ(world_.Agent("node-1").Desired(second), Assignment::PREPARED);
}

TEST_F(Cards, ThatAProcessHoldsAreAvoided) {
  v1::AgentMessage message;
  v1::DeviceReading& reading = *message.mutable_heartbeat()->add_readings();
  reading.set_module_id(2);
  reading.set_status("Operational");
  reading.set_utilization_percent(93);
  v1::DeviceHolder& holder = *reading.add_holders();
  holder.set_pid(4711);
  holder.set_user("bob");
  world_.core().OnAgentMessage(world_.Agent("node-1").session, message);
  world_.Settle();
  const JobId job = world_.Submit(World::Spec({"node-1"}, 4));
  world_.Settle();
  EXPECT_THAT(CardsOf(job), ElementsAre(4, 5, 6, 7));
}

TEST_F(Cards, LeavePlainSlotsAlone) {
  const JobId cards = world_.SubmitAndStart(World::Spec({"node-1"}, 8));
  v1::JobSpec spec = World::Spec({"node-1"}, 2);
  spec.set_devices("none");
  const JobId plain = world_.Submit(spec);
  world_.Settle();
  EXPECT_THAT(CardsOf(cards).size(), 8u);
  EXPECT_THAT(CardsOf(plain), ElementsAre(0, 1));
  EXPECT_FALSE(world_.Agent("node-1").Find(plain)->launch().slots_are_cards());
}

TEST(Telemetry, IsAskedForAsTheOptionsSay) {
  World world;
  world.Join("node-1");
  world.Settle();
  EXPECT_EQ(world.Agent("node-1").welcome->telemetry_interval().seconds(), 10);
  CoordinatorOptions never;
  never.telemetry_interval = Duration::zero();
  World quiet(never);
  quiet.Join("node-1");
  quiet.Settle();
  EXPECT_FALSE(quiet.Agent("node-1").welcome->has_telemetry_interval());
}

}  // namespace
}  // namespace muster::testing
