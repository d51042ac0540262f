// Stories of clocks that are wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator_core/world.h"

namespace muster::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

v1::ListNodesResponse Nodes(World& world) {
  return *world.Await<v1::ListNodesResponse>([&](auto done) {
    world.core().ListNodes({}, {"root", true}, std::move(done));
  });
}

TEST(Clocks, OfNodesAreComparedWithTheCoordinators) {
  World world;
  world.JoinAll({"node-1", "node-2"});
  world.Agent("node-1").clock_offset = hours(1);
  world.Agent("node-2").clock_offset = -hours(1);
  world.Run(seconds(10));
  const v1::ListNodesResponse nodes = Nodes(world);
  EXPECT_EQ(nodes.nodes(0).clock_offset().seconds(), 3600);
  EXPECT_EQ(nodes.nodes(1).clock_offset().seconds(), -3600);
  EXPECT_EQ(nodes.nodes(0).state(), v1::Node::ALIVE);
  EXPECT_EQ(nodes.nodes(1).state(), v1::Node::ALIVE);
  // Set right again.
  world.Agent("node-1").clock_offset = {};
  world.Run(seconds(10));
  EXPECT_EQ(Nodes(world).nodes(0).clock_offset().seconds(), 0);
}

// A rank that dies of another one's death tells of it with an earlier time, when the clock of its
// node is behind.
TEST(Clocks, AWrongOneDoesNotChangeWhoFailedFirst) {
  for (const Duration offset : {Duration(-hours(1)), Duration(hours(1))}) {
    World world;
    const JobId job = world.SubmitAndStart(world.Spec({"node-1", "node-2"}));
    world.Agent("node-2").clock_offset = offset;
    world.Run(seconds(10));
    // Both wait for a slow disk, and are known at the same time.
    world.disk().latency = milliseconds(500);
    world.LogClosed(1, 10);
    const bool ahead = offset > Duration::zero();
    world.Exited(ahead ? 2 : 0, 7);
    world.Run(milliseconds(100));
    world.Exited(ahead ? 0 : 2, 9);
    world.disk().latency = {};
    world.Run(seconds(2));
    world.StoppedAll();
    const v1::Job view = world.Job(job);
    EXPECT_EQ(view.exit_code(), 7);
    EXPECT_EQ(view.first_failure().rank(), ahead ? 2u : 0u);
  }
}

}  // namespace
}  // namespace muster::testing
