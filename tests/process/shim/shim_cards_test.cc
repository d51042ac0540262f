// A real muster-shim and simulated cards: leases of the machine, cards that are waited for, and
// refusals.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "agent/shim/card_watch.h"
#include "tests/process/shim/shim_client.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ShimCards : public ::testing::Test {
 protected:
  std::string StatusPath() const { return folder_.path() + "/status"; }
  std::string NodePath() const { return folder_.path() + "/accel0"; }
  void SetStatus(const std::string& status) {
    std::ofstream(StatusPath() + ".new") << status;
    std::filesystem::rename(StatusPath() + ".new", StatusPath());
  }
  // One rank on the card of module 0, which is watched.
  void UseCard(ShimClient& shim, uint64_t wait_ms, const std::string& node = "node-1") {
    shim.AddProbe({"--exit", "0"});
    shim.bootstrap.set_node_id(node);
    shim.bootstrap.set_slots_are_cards(true);
    shim.bootstrap.set_device_wait_ms(wait_ms);
    internal::ShimCard& card = *shim.bootstrap.add_cards();
    card.set_module_id(0);
    card.set_pci_address("0000:19:00.0");
    card.set_status_path(StatusPath());
    card.set_device_node(NodePath());
  }
  // A process that has the card open until `line` is dropped.
  UniqueFd Hold(pid_t& pid) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    pid = ::fork();
    if (pid == 0) {
      const int card = ::open(NodePath().c_str(), O_RDONLY);
      char byte = 'r';
      (void)!::write(ends[1], &byte, card >= 0 ? 1 : 0);
      ::close(ends[1]);
      while (::read(ends[0], &byte, 1) > 0) {
        // Its own byte comes back unless the test takes it first.
      }
      ::_exit(0);
    }
    // Open once it is found.
    EXPECT_TRUE(Eventually([&] {
      std::error_code error;
      for (const auto& fd :
           std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error)) {
        if (std::filesystem::read_symlink(fd, error) == NodePath()) return true;
      }
      return false;
    }));
    ::close(ends[0]);
    return UniqueFd(ends[1]);
  }

  AttemptFolder folder_;
  const std::string leases_ = folder_.path() + "/leases";
  ShimClient shim_{folder_.path(), "a", leases_};
  ShimCards() {
    SetStatus("Operational\n");
    std::ofstream(NodePath()) << "";
  }
};

TEST_F(ShimCards, AreGivenToRanksWhenTheyAreReady) {
  UseCard(shim_, 0);
  EXPECT_TRUE(shim_.RunToEnd());
}

TEST_F(ShimCards, AreNotCalledFreeWhenNotEveryProcessWasLookedAt) {
  UseCard(shim_, 0);
  const shim::CardLook cut =
      shim::LookAtCards(shim_.bootstrap.cards(), {.time = std::chrono::milliseconds(0)});
  EXPECT_TRUE(cut.problems.empty());
  EXPECT_THAT(cut.incomplete, AllOf(HasSubstr("not fully known"), HasSubstr("0 ms")));
  const shim::CardLook whole =
      shim::LookAtCards(shim_.bootstrap.cards(), {.time = std::chrono::seconds(60)});
  EXPECT_EQ(whole.incomplete, "");
}

TEST_F(ShimCards, AreOfOneMachineWhateverItsAgentsAreCalled) {
  UseCard(shim_, 0, "node-1");
  ASSERT_TRUE(shim_.StartAndPrepare());
  ShimClient other(folder_.path(), "b", leases_);
  UseCard(other, 0, "node-2");
  EXPECT_FALSE(other.StartAndPrepare());
  EXPECT_THAT(other.Problems(),
              AllOf(HasSubstr("the card of module 0 of node-2 is in use by tester, job a"),
                    HasSubstr("pid " + std::to_string(shim_.pid()))));
  // A plain slot of the same number is something else, and so is the card of a simulated node.
  ShimClient plain(folder_.path(), "c", leases_);
  plain.AddProbe({"--exit", "0"});
  EXPECT_TRUE(plain.StartAndPrepare());
  ShimClient simulated(folder_.path(), "d", leases_);
  UseCard(simulated, 0, "node-2");
  simulated.bootstrap.set_card_leases_per_node(true);
  EXPECT_TRUE(simulated.StartAndPrepare());
}

TEST_F(ShimCards, OfAnAttemptThatEndsAreWaitedFor) {
  UseCard(shim_, 0);
  ASSERT_TRUE(shim_.StartAndPrepare());
  ShimClient other(folder_.path(), "b", leases_);
  UseCard(other, 60'000);
  other.Start();
  ASSERT_TRUE(other.Connect());
  // It serves its agent meanwhile.
  other.Renew(600'000);
  shim_.Stop(0);
  ASSERT_NE(shim_.WaitStopped(), nullptr);
  EXPECT_NE(other.WaitFor([](const auto& record) { return record.has_prepared(); }), nullptr);
}

// Two that want the same cards would otherwise wait for each other, each with some of them.
TEST_F(ShimCards, AreNotKeptByOneThatWaitsForOthers) {
  UseCard(shim_, 0);
  ASSERT_TRUE(shim_.StartAndPrepare());
  ShimClient both(folder_.path(), "b", leases_);
  both.AddProbe({"--exit", "0"});
  both.AddProbe({"--exit", "0"});
  both.bootstrap.set_slots_are_cards(true);
  both.bootstrap.set_device_wait_ms(60'000);
  both.Start();
  ASSERT_TRUE(both.Connect());
  ASSERT_NE(both.WaitFor([](const auto& record) { return record.has_begun(); }), nullptr);
  ShimClient second(folder_.path(), "c", leases_);
  second.AddProbe({"--exit", "0"});
  second.bootstrap.set_slots(0, 1);
  second.bootstrap.mutable_ranks(0)->set_slot(1);
  second.bootstrap.set_slots_are_cards(true);
  second.bootstrap.set_device_wait_ms(10'000);
  EXPECT_TRUE(second.StartAndPrepare()) << second.Problems();
}

// What is wrong anyway is told at once, and the cards are others'.
TEST_F(ShimCards, AreNotWaitedForByOneThatCannotStart) {
  SetStatus("In reset");
  UseCard(shim_, 3'600'000);
  shim_.bootstrap.set_working_directory(folder_.path() + "/nowhere");
  EXPECT_FALSE(shim_.StartAndPrepare());
  EXPECT_THAT(shim_.Problems(), AllOf(HasSubstr("nowhere"), HasSubstr("In reset")));
}

TEST_F(ShimCards, ThatAreInResetAreWaitedFor) {
  SetStatus("In reset\n");
  UseCard(shim_, 60'000);
  shim_.Start();
  ASSERT_TRUE(shim_.Connect());
  ASSERT_NE(shim_.WaitFor([](const auto& record) { return record.has_begun(); }), nullptr);
  SetStatus("Operational\n");
  EXPECT_NE(shim_.WaitFor([](const auto& record) { return record.has_prepared(); }), nullptr);
}

TEST_F(ShimCards, ThatStayInResetAreRefused) {
  SetStatus("In reset after device release");
  UseCard(shim_, 300);
  EXPECT_FALSE(shim_.StartAndPrepare());
  EXPECT_THAT(shim_.Problems(), HasSubstr("card-status: module 0 (0000:19:00.0) is not ready, its "
                                          "status is \"In reset after device release\""));
}

TEST_F(ShimCards, ThatAreBrokenAreNotWaitedFor) {
  SetStatus("Disabled\n");
  UseCard(shim_, 3'600'000);
  EXPECT_FALSE(shim_.StartAndPrepare());
  EXPECT_THAT(shim_.Problems(), HasSubstr("\"Disabled\""));
}

TEST_F(ShimCards, ThatAProcessHoldsAreRefusedWithItsName) {
  pid_t holder = 0;
  UniqueFd line = Hold(holder);
  UseCard(shim_, 0);
  EXPECT_FALSE(shim_.StartAndPrepare());
  EXPECT_THAT(shim_.Problems(), HasSubstr("card-busy: module 0 (0000:19:00.0) is held by pid " +
                                          std::to_string(holder)));
  // Nothing is left of what was leased.
  ShimClient waits(folder_.path(), "b", leases_);
  UseCard(waits, 60'000);
  waits.Start();
  ASSERT_TRUE(waits.Connect());
  line.Reset();
  EXPECT_NE(waits.WaitFor([](const auto& record) { return record.has_prepared(); }), nullptr);
}

TEST_F(ShimCards, AreNotWaitedForByAnAttemptThatIsStopped) {
  SetStatus("In reset");
  UseCard(shim_, 3'600'000);
  shim_.Start();
  ASSERT_TRUE(shim_.Connect());
  shim_.Stop(0);
  EXPECT_NE(shim_.WaitStopped(), nullptr);
  shim_.Quit();
  EXPECT_EQ(shim_.WaitExit(), 0);
}

}  // namespace
}  // namespace muster::testing
