// Where ranks meet: what rank 0's node proposes, and whether the others reach it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent_core/core_fixture.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::Assignment PrepareAt(const AttemptId& id, const std::string& address) {
  v1::Assignment assignment;
  *assignment.mutable_key() = KeyOf(id);
  assignment.set_generation(1);
  assignment.set_desired(v1::Assignment::PREPARED);
  assignment.mutable_launch()->add_ranks();
  assignment.mutable_launch()->mutable_rendezvous()->set_address(address);
  return assignment;
}

class AgentCoreRendezvous : public AgentCoreTest {
 protected:
  static v1::Assignment Probe(uint64_t generation, std::vector<std::string> addresses) {
    v1::Assignment assignment = Assignment(kJob1, generation, v1::Assignment::PREPARED);
    for (std::string& address : addresses) {
      assignment.mutable_probe()->add_addresses(std::move(address));
    }
    assignment.mutable_probe()->set_port(29500);
    return assignment;
  }
  std::vector<std::string> ProposedAddresses() {
    for (const v1::Event& event : TakeEvents()) {
      if (event.has_prepared()) {
        return {event.prepared().addresses().begin(), event.prepared().addresses().end()};
      }
    }
    return {"not prepared"};
  }
  // Address and error of every answer of the newest probe that was told.
  std::vector<std::string> Answers() {
    std::vector<std::string> answers;
    for (const v1::Event& event : TakeEvents()) {
      if (!event.has_rendezvous_probed()) continue;
      answers.clear();
      for (const v1::ProbedAddress& one : event.rendezvous_probed().addresses()) {
        answers.push_back(one.address() + ": " + one.error());
      }
    }
    return answers;
  }
};

TEST_F(AgentCoreRendezvous, ProposesTheAddressesOfTheNode) {
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  TellPrepared(kJob1, 1);
  EXPECT_THAT(ProposedAddresses(), ElementsAre("10.0.0.1"));
}

TEST_F(AgentCoreRendezvous, ProposesTheInterfacesOfHcclFirst) {
  StartAgent();
  Connect();
  network_->interfaces["ens,ib"] = {"10.8.0.1", "10.0.0.1"};
  v1::Assignment assignment = Prepare(kJob1);
  v1::EnvAssignment& env = *assignment.mutable_launch()->add_env();
  env.set_name("HCCL_SOCKET_IFNAME");
  env.add_parts()->set_literal("ens,ib");
  Assign(assignment);
  TellPrepared(kJob1, 1);
  EXPECT_THAT(ProposedAddresses(), ElementsAre("10.8.0.1", "10.0.0.1"));
}

TEST_F(AgentCoreRendezvous, RanksInContainersHaveTheVariableOfTheJobAndNotThatOfTheAgent) {
  options_.environ = {"HCCL_SOCKET_IFNAME=eno"};
  options_.look_for_engines = [](const v1::LaunchSpec&, const RunAs&,
                                 const std::function<void(ContainerHost)>& done) {
    ContainerHost host;
    host.docker.program = "/usr/bin/docker";
    done(std::move(host));
  };
  StartAgent();
  Connect();
  network_->interfaces["eno"] = {"10.9.0.1"};
  network_->interfaces["ens"] = {"10.8.0.1"};
  v1::Assignment assignment = Prepare(kJob1);
  assignment.mutable_launch()->set_working_directory("/work");
  assignment.mutable_launch()->mutable_container()->set_image("train");
  v1::Assignment with_own = assignment;
  *with_own.mutable_key() = KeyOf(kJob2);
  v1::EnvAssignment& env = *with_own.mutable_launch()->add_env();
  env.set_name("HCCL_SOCKET_IFNAME");
  env.add_parts()->set_literal("ens");
  Assign(assignment);
  TellPrepared(kJob1, 1);
  EXPECT_THAT(ProposedAddresses(), ElementsAre("10.0.0.1"));
  Assign(with_own);
  TellPrepared(kJob2, 1);
  EXPECT_THAT(ProposedAddresses(), ElementsAre("10.8.0.1", "10.0.0.1"));
}

TEST_F(AgentCoreRendezvous, TheVariableMayBeTheAgentsOwnAndAnAdoptedShimsJobCounts) {
  options_.environ = {"HCCL_SOCKET_IFNAME=eno"};
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  on_disk_ = {kJob1};
  StartAgent();
  network_->interfaces["eno"] = {"10.9.0.1"};
  Connect({Assignment(kJob1, 1, v1::Assignment::PREPARED)});
  TellPrepared(kJob1, 1);
  EXPECT_THAT(ProposedAddresses(), ElementsAre("10.9.0.1", "10.0.0.1"));
}

TEST_F(AgentCoreRendezvous, ProposesOnlyTheAddressThatWasAskedFor) {
  StartAgent();
  Connect();
  Assign(PrepareAt(kJob1, "train.example"));
  EXPECT_THAT(launcher_->Take(), ElementsAre("launch j1/1"));
  TellPrepared(kJob1, 1);
  EXPECT_THAT(ProposedAddresses(), ElementsAre("train.example"));
}

TEST_F(AgentCoreRendezvous, AnAddressOfAnotherNodeIsRefusedBeforeAnythingIsLaunched) {
  StartAgent();
  Connect();
  network_->foreign["10.0.0.2"] = "10.0.0.2 is none of this node";
  Assign(PrepareAt(kJob1, "10.0.0.2"));
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  EXPECT_THAT(TakeEventWords(),
              ElementsAre("1 prepare failed: 10.0.0.2 is none of this node", "2 stopped"));
}

TEST_F(AgentCoreRendezvous, AnswersAProbeAndStaysPrepared) {
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  TellPrepared(kJob1, 1);
  launcher_->Take();
  TakeEvents();
  network_->errors["10.0.0.9"] = "no route to host";
  Assign(Probe(2, {"10.0.0.9", "10.1.0.9"}));
  EXPECT_THAT(Answers(), ElementsAre("10.0.0.9: no route to host", "10.1.0.9: "));
  EXPECT_EQ(network_->probes[0].port, 29500u);
  EXPECT_THAT(launcher_->Take(), IsEmpty());
  Assign(Run(kJob1, 3));
  EXPECT_THAT(launcher_->Take(), ElementsAre("run j1/1 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500"));
}

TEST_F(AgentCoreRendezvous, AnswersBeforeItIsPrepared) {
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  Assign(Probe(2, {"10.0.0.9"}));
  EXPECT_THAT(TakeEventWords(), ElementsAre("1 probed 1"));
}

TEST_F(AgentCoreRendezvous, ANewerProbeIsAnsweredAgainAndTheOlderIsNotAnyMore) {
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  network_->hold = true;
  Assign(Probe(2, {"10.0.0.8"}));
  Assign(Probe(2, {"10.0.0.8"}));
  Assign(Probe(3, {"10.0.0.9"}));
  ASSERT_EQ(network_->probes.size(), 2u);
  network_->Answer(0);
  network_->Answer(1);
  queue_.RunReady();
  EXPECT_THAT(Answers(), ElementsAre("10.0.0.9: "));
}

TEST_F(AgentCoreRendezvous, AnAgentThatStartsAnewAnswersWhenItSeesTheProbeAgain) {
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  network_->hold = true;
  Assign(Probe(2, {"10.0.0.9"}));
  on_disk_ = {kJob1};
  StartAgent();
  EXPECT_TRUE(network_->probes.empty()) << "the assignment may be an old one";
  Connect({Assignment(kJob1, 2, v1::Assignment::PREPARED)});
  EXPECT_THAT(Answers(), ElementsAre("10.0.0.9: "));
}

TEST_F(AgentCoreRendezvous, AnAnswerIsToldAfterTheSessionCameBack) {
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  network_->hold = true;
  Assign(Probe(2, {"10.0.0.9"}));
  core_->OnDisconnected(absl::UnavailableError("cut"));
  network_->Answer(0);
  queue_.RunReady();
  Connect({Assignment(kJob1, 2, v1::Assignment::PREPARED)});
  EXPECT_THAT(TakeEventWords(), ElementsAre("1 probed 1"));
  EXPECT_EQ(network_->probes.size(), 1u);
}

TEST_F(AgentCoreRendezvous, AProbeThatWasOvertakenIsNotAnswered) {
  StartAgent();
  Connect();
  Assign(Prepare(kJob1));
  TellPrepared(kJob1, 1);
  network_->hold = true;
  Assign(Probe(2, {"10.0.0.9"}));
  TakeEvents();
  Assign(Assignment(kJob1, 4, v1::Assignment::STOPPED));
  network_->Answer(0);
  queue_.RunReady();
  EXPECT_THAT(TakeEventWords(), IsEmpty());
}

}  // namespace
}  // namespace muster::testing
