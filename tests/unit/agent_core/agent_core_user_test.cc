// What ranks run as: asked before anything is launched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent_core/core_fixture.h"

namespace muster::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::Assignment For(const std::string& user, v1::Assignment assignment) {
  assignment.mutable_launch()->set_user(user);
  return assignment;
}

RunAs Bob() {
  return {.self = false,
          .name = "bob",
          .uid = 1001,
          .gid = 100,
          .groups = {100},
          .home = "/home/bob",
          .shell = "/bin/sh"};
}

TEST_F(AgentCoreTest, LaunchesAsTheUserOfTheJob) {
  StartAgent();
  Connect();
  users_->users["bob"] = Bob();
  Assign(For("bob", Prepare(kJob1)));
  EXPECT_THAT(users_->asked, ElementsAre("bob"));
  EXPECT_THAT(launcher_->Take(), ElementsAre("launch j1/1"));
  EXPECT_EQ(launcher_->bootstraps[kJob1].run_as().uid(), 1001u);
}

TEST_F(AgentCoreTest, NothingIsLaunchedForAUserThatIsRefused) {
  StartAgent();
  Connect();
  users_->users["eve"] = absl::PermissionDeniedError("not eve");
  Assign(For("eve", Prepare(kJob1)));
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  const std::vector<v1::Event> events = TakeEvents();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].prepare_failed().problems(0).check(), "user");
  EXPECT_EQ(events[0].prepare_failed().problems(0).message(), "not eve");
  EXPECT_EQ(Word(events[1]), "stopped");
  Assign(Assignment(kJob1, 2, v1::Assignment::RELEASED));
  EXPECT_THAT(launcher_->Take(), ElementsAre("release j1/1"));
}

TEST_F(AgentCoreTest, TellsWhatItDoesByOrder) {
  StartAgent();
  Connect();
  users_->users["bob"] = Bob();
  users_->users["eve"] = absl::PermissionDeniedError("not eve");
  v1::Assignment assignment = For("bob", Prepare(kJob1));
  assignment.mutable_launch()->set_submitter("alice");
  Assign(assignment);
  ASSERT_EQ(observer_.deeds.size(), 1u);
  EXPECT_EQ(observer_.deeds[0].kind, Deed::Kind::kLaunch);
  EXPECT_EQ(observer_.deeds[0].attempt, kJob1);
  EXPECT_EQ(observer_.deeds[0].submitter, "alice");
  EXPECT_EQ(observer_.deeds[0].user, "bob");
  EXPECT_FALSE(observer_.deeds[0].ranks.empty());
  Assign(Assignment(kJob1, 2, v1::Assignment::STOPPED));
  Assign(Assignment(kJob1, 3, v1::Assignment::RELEASED));
  Assign(For("eve", Prepare(kJob2)));
  ASSERT_EQ(observer_.deeds.size(), 3u);
  EXPECT_EQ(observer_.deeds[1].kind, Deed::Kind::kStop);
  EXPECT_EQ(observer_.deeds[1].submitter, "alice");
  EXPECT_EQ(observer_.deeds[2].kind, Deed::Kind::kRefuseLaunch);
  EXPECT_EQ(observer_.deeds[2].user, "eve");
  EXPECT_EQ(observer_.deeds[2].detail, "user: not eve");
}

TEST_F(AgentCoreTest, AStopDoesNotWaitForTheUserDatabase) {
  StartAgent();
  Connect();
  users_->hold = true;
  users_->users["bob"] = Bob();
  Assign(For("bob", Prepare(kJob1)));
  Assign(Assignment(kJob1, 2, v1::Assignment::STOPPED));
  EXPECT_THAT(TakeEventWords(), ElementsAre("1 stopped"));
  users_->Answer();
  queue_.RunReady();
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  Assign(Assignment(kJob1, 3, v1::Assignment::RELEASED));
  EXPECT_THAT(launcher_->Take(), ElementsAre("release j1/1"));
}

TEST_F(AgentCoreTest, AStopDoesNotWaitForContainerEngines) {
  std::function<void(ContainerHost)> answer;
  options_.look_for_engines = [&](const v1::LaunchSpec&, const RunAs&,
                                  std::function<void(ContainerHost)> done) {
    answer = std::move(done);
  };
  StartAgent();
  Connect();
  v1::Assignment assignment = Prepare(kJob1);
  assignment.mutable_launch()->set_working_directory("/work");
  assignment.mutable_launch()->mutable_container()->set_image("train");
  Assign(assignment);
  ASSERT_TRUE(answer);
  Assign(Assignment(kJob1, 2, v1::Assignment::STOPPED));
  EXPECT_THAT(TakeEventWords(), ElementsAre("1 stopped"));
  ContainerHost host;
  host.docker.program = "/usr/bin/docker";
  answer(host);
  queue_.RunReady();
  EXPECT_THAT(launcher_->Take(), IsEmpty());
}

TEST_F(AgentCoreTest, CardsThatChangeWhileEnginesAreAskedAreThoseOfTheEnd) {
  const auto with_card = [](const std::string& node) {
    v1::NodeFacts facts;
    v1::Device& card = *facts.mutable_devices()->add_devices();
    card.set_module_id(0);
    card.set_device_node(node);
    return facts;
  };
  options_.facts = with_card("/dev/accel/accel3");
  std::function<void(ContainerHost)> answer;
  options_.look_for_engines = [&](const v1::LaunchSpec&, const RunAs&,
                                  std::function<void(ContainerHost)> done) {
    answer = std::move(done);
  };
  StartAgent();
  Connect();
  v1::Assignment assignment = Prepare(kJob1);
  v1::LaunchSpec& launch = *assignment.mutable_launch();
  launch.set_working_directory("/work");
  launch.set_slots_are_cards(true);
  launch.mutable_container()->set_image("train");
  while (launch.ranks_size() > 1) launch.mutable_ranks()->RemoveLast();
  launch.mutable_ranks(0)->set_slot(0);
  Assign(assignment);
  ASSERT_TRUE(answer);
  core_->SetFacts(with_card("/dev/accel/accel7"));
  ContainerHost host;
  host.docker.program = "/usr/bin/docker";
  host.docker.has_init = true;
  host.device_nodes = {"/dev/accel/accel7"};
  answer(host);
  queue_.RunReady();
  EXPECT_THAT(launcher_->Take(), ElementsAre("launch j1/1"));
  EXPECT_THAT(launcher_->bootstraps[kJob1].ranks(0).argv(),
              Contains(HasSubstr("/dev/accel/accel7")));
}

TEST_F(AgentCoreTest, AnAttemptReleasedMeanwhileIsNotLaunched) {
  StartAgent();
  Connect();
  users_->hold = true;
  Assign(For("bob", Prepare(kJob1)));
  Assign(Assignment(kJob1, 2, v1::Assignment::RELEASED));
  EXPECT_THAT(launcher_->Take(), ElementsAre("release j1/1"));
  users_->Answer();
  queue_.RunReady();
  EXPECT_THAT(launcher_->Take(), IsEmpty());
}

TEST_F(AgentCoreTest, WithoutACoordinatorNothingIsLaunchedWhenTheUserIsKnown) {
  StartAgent();
  Connect();
  users_->hold = true;
  Assign(For("bob", Prepare(kJob1)));
  core_->OnDisconnected(absl::UnavailableError("gone"));
  users_->Answer();
  queue_.RunReady();
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  users_->hold = false;
  Connect({Prepare(kJob1)});
  EXPECT_THAT(launcher_->Take(), ElementsAre("launch j1/1"));
  EXPECT_THAT(users_->asked, ElementsAre("bob", "bob"));
}

TEST_F(AgentCoreTest, AnAgentThatDiedWhileItWaitedAsksAgain) {
  StartAgent();
  Connect();
  users_->hold = true;
  Assign(For("bob", Prepare(kJob1)));
  StartAgent();
  EXPECT_THAT(launcher_->Take(), ElementsAre("adopt j1/1 from 1"));
  Die(kJob1);
  Swept(kJob1);
  Connect({Prepare(kJob1)});
  EXPECT_THAT(users_->asked, ElementsAre("bob"));
  EXPECT_THAT(launcher_->Take(), ElementsAre("sweep j1/1", "launch j1/1"));
}

}  // namespace
}  // namespace muster::testing
