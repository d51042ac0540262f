// Stories of nodes that are there twice: the state of an agent was copied to another machine, or to
// another place on the same one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using v1::Assignment;

struct Alarms {
  std::vector<std::string> texts;
  CoordinatorOptions Options() {
    CoordinatorOptions options;
    options.alarm = [this](const NodeId& node, std::string_view text) {
      texts.push_back(fmt::format("{}: {}", node.value(), text));
    };
    return options;
  }
};

// An agent with the state of another one, on another boot or only in another process.
class Copy {
 public:
  Copy(World& world, const FakeAgent& of, const std::string& boot) : world_(world), sink_("") {
    sink_.hello = of.greeting;
    sink_.hello.set_boot_id(boot);
    sink_.hello.set_agent_instance_id("copy-instance");
    sink_.hello.mutable_facts()->set_hostname("copy");
  }
  ~Copy() {
    Leave();
    world_.Settle();
  }
  void Greet() {
    Leave();
    sink_.closed.reset();
    sink_.inbox.clear();
    sink_.session = world_.core().OnAgentConnected(&sink_);
    sink_.hello.set_steady_ns(sink_.hello.steady_ns() + 1000);
    v1::AgentMessage message;
    *message.mutable_hello() = sink_.hello;
    world_.core().OnAgentMessage(sink_.session, std::move(message));
    world_.Settle();
  }
  void Leave() {
    if (sink_.session != SessionHandle::kNone) world_.core().OnAgentDisconnected(sink_.session);
    sink_.session = SessionHandle::kNone;
  }
  FakeAgent& agent() { return sink_; }
  absl::StatusCode refused() const {
    return sink_.closed ? sink_.closed->code() : absl::StatusCode::kOk;
  }

 private:
  World& world_;
  FakeAgent sink_;
};

v1::Node NodeOf(World& world, const std::string& name) {
  const auto nodes = world.Await<v1::ListNodesResponse>([&](auto done) {
    world.core().ListNodes({}, {"root", true}, std::move(done));
  });
  for (const v1::Node& node : nodes->nodes()) {
    if (node.node_id() == name) return node;
  }
  return {};
}

TEST(Copies, OnAnotherMachineAreToldApartAndNotServed) {
  Alarms alarms;
  World world(alarms.Options());
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  Copy copy(world, world.Agent("node-1"), "boot-of-the-copy");
  for (int i = 0; i < 4; ++i) {
    copy.Greet();
    EXPECT_EQ(copy.refused(), absl::StatusCode::kUnavailable) << "a reboot looks like this, too";
    world.Run(seconds(3));
  }
  ASSERT_EQ(alarms.texts.size(), 1u) << "both were there for a lease";
  EXPECT_THAT(alarms.texts[0], AllOf(HasSubstr("node-1: another machine"), HasSubstr("host copy"),
                                     HasSubstr("boot-of-the-copy")));
  copy.Greet();
  EXPECT_EQ(copy.refused(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(NodeOf(world, "node-1").alarms(), ElementsAre(HasSubstr("copied")));
  EXPECT_EQ(NodeOf(world, "node-1").boot_id(), "node-1-boot-1");
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
  // Neither when the other one is gone, nor for another coordinator.
  world.Disconnect("node-1");
  world.Run(seconds(60));
  copy.Greet();
  EXPECT_EQ(copy.refused(), absl::StatusCode::kFailedPrecondition);
  copy.Leave();
  world.Restart();
  world.Run(seconds(60));
  copy.Greet();
  EXPECT_EQ(copy.refused(), absl::StatusCode::kFailedPrecondition);
  for (const v1::CoordinatorMessage& message : copy.agent().inbox) {
    for (const Assignment& assignment : message.snapshot().assignments()) {
      EXPECT_EQ(assignment.desired(), Assignment::STOPPED);
    }
  }
}

TEST(Copies, InAnotherProcessOfTheSameMachineAreNotServed) {
  Alarms alarms;
  World world(alarms.Options());
  world.Join("node-1");
  Copy copy(world, world.Agent("node-1"), "node-1-boot-1");
  for (int i = 0; i < 4; ++i) {
    copy.Greet();
    EXPECT_EQ(copy.refused(), absl::StatusCode::kUnavailable);
    world.Run(seconds(3));
  }
  EXPECT_EQ(alarms.texts.size(), 1u);
  copy.Greet();
  EXPECT_EQ(copy.refused(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(world.Agent("node-1").closed.has_value());
}

TEST(Copies, WhoCameOnceIsNoCopyYet) {
  Alarms alarms;
  World world(alarms.Options());
  world.Join("node-1");
  Copy once(world, world.Agent("node-1"), "node-1-boot-1");
  once.Greet();
  once.Leave();
  world.Run(seconds(60));
  EXPECT_THAT(alarms.texts, IsEmpty());
  world.Disconnect("node-1");
  once.Greet();
  EXPECT_EQ(once.refused(), absl::StatusCode::kOk);
}

TEST(Copies, AProcessThatEndedIsFollowedAtOnce) {
  Alarms alarms;
  World world(alarms.Options());
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Disconnect("node-1");
  world.Agent("node-1").hello.set_agent_instance_id("another");
  world.Connect("node-1");
  EXPECT_TRUE(world.Agent("node-1").welcome.has_value());
  EXPECT_EQ(world.Job(job).state(), v1::Job::RUNNING);
  EXPECT_THAT(alarms.texts, IsEmpty());
}

TEST(Copies, AProcessWhoseConnectionDoesNotEndIsFollowedWhenItIsSilent) {
  Alarms alarms;
  World world(alarms.Options());
  world.Join("node-1");
  world.Agent("node-1").beating = false;
  Copy successor(world, world.Agent("node-1"), "node-1-boot-1");
  successor.Greet();
  EXPECT_EQ(successor.refused(), absl::StatusCode::kUnavailable);
  world.Run(seconds(11));
  successor.Greet();
  EXPECT_EQ(successor.refused(), absl::StatusCode::kOk);
  EXPECT_TRUE(world.Agent("node-1").closed.has_value());
  EXPECT_THAT(alarms.texts, IsEmpty());
}

// The copy came while the original was away, and was taken for its next boot.
TEST(Copies, WhoWasReplacedIsToldToStopWhatItHas) {
  Alarms alarms;
  World world(alarms.Options());
  const JobId job = world.SubmitAndStart(world.Spec({"node-1"}));
  world.Disconnect("node-1");
  world.Run(seconds(11));
  Copy copy(world, world.Agent("node-1"), "boot-of-the-copy");
  copy.agent().hello.set_journal_id("journal-of-the-copy");
  copy.agent().hello.clear_attempts();
  copy.agent().hello.set_oldest_event_seq(0);
  copy.Greet();
  EXPECT_EQ(copy.refused(), absl::StatusCode::kOk);
  FakeAgent& original = world.Agent("node-1");
  const uint64_t told = original.journal.size();
  world.Connect("node-1");
  ASSERT_TRUE(original.closed.has_value());
  EXPECT_EQ(original.closed->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(original.Desired(job), Assignment::STOPPED) << "its ranks were given up";
  EXPECT_EQ(original.welcome->acked_event_seq(), told) << "an agent refuses who knows less";
  EXPECT_THAT(alarms.texts, ElementsAre(HasSubstr("is back")));
  EXPECT_EQ(NodeOf(world, "node-1").boot_id(), "boot-of-the-copy");
  EXPECT_EQ(copy.refused(), absl::StatusCode::kOk) << "its session goes on";
}

}  // namespace
}  // namespace muster::testing
