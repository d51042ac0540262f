// What a start is told about cards, also when they cannot be asked.
#include "agent/daemon/card_inspector.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/io/unique_fd.h"
#include "tests/testing/sim_node.h"
#include "tests/testing/temp_folder.h"

namespace muster::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class CardInspectorTest : public ::testing::Test {
 protected:
  CardInspectorTest() {
    node_.AddCards({0, 1});
    launch_.set_slots_are_cards(true);
    launch_.set_node_count(2);
    for (const uint32_t module : {0u, 1u}) launch_.add_ranks()->set_slot(module);
    bootstrap_.add_ranks();
  }
  CardReader Reader() {
    DeviceOptions options;
    options.sysroot = node_.root();
    options.proc = folder_.path();
    return CardReader(loop_, options, "auto");
  }
  void Inspect(CardInspector& inspector) {
    inspector.Inspect({attempt_, launch_, user_, bootstrap_}, [this](Inspection inspection) {
      answers_.push_back(std::move(inspection));
      loop_.Stop();
    });
    loop_.Run();
  }
  std::vector<std::string> Found() const {
    std::vector<std::string> found;
    for (const v1::CheckResult& result : answers_.at(0).report.results()) {
      found.push_back(v1::Verdict_Name(result.verdict()) + " " + result.check());
    }
    return found;
  }

  TempFolder folder_;
  SimNode node_{folder_.File("node")};
  EventLoop loop_;
  const AttemptId attempt_{JobId("j1"), 1};
  const RunAs user_;
  v1::LaunchSpec launch_;
  internal::ShimBootstrap bootstrap_;
  std::vector<Inspection> answers_;
};

TEST_F(CardInspectorTest, LooksAtTheCardsAsTheyAreNow) {
  const CardReader cards = Reader();
  CardInspector inspector(loop_, cards);
  node_.SetStatus(1, "Disabled");
  Inspect(inspector);
  EXPECT_THAT(Found(), Contains("FAIL cards"));
}

TEST_F(CardInspectorTest, PortsThatLeaveTheMachineDoNotMatterOverTheHostsNetwork) {
  const CardReader cards = Reader();
  CardInspector inspector(loop_, cards);
  for (const uint32_t port : {8u, 22u, 23u}) node_.SetPort(0, port, "down");
  bootstrap_.mutable_ranks(0)->add_env("HCCL_OVER_OFI=1");
  Inspect(inspector);
  EXPECT_THAT(Found(), Contains("PASS card-ports"));
}

// The engine's client has the agent's environment, which ranks in containers do not see.
TEST_F(CardInspectorTest, VariablesOfTheEnginesClientAreNotThoseOfRanks) {
  const CardReader cards = Reader();
  CardInspector inspector(loop_, cards);
  for (const uint32_t port : {8u, 22u, 23u}) node_.SetPort(0, port, "down");
  bootstrap_.mutable_ranks(0)->add_env("HCCL_OVER_OFI=1");
  launch_.mutable_container()->set_image("train");
  Inspect(inspector);
  EXPECT_THAT(Found(), Contains("FAIL card-ports"));
}

TEST_F(CardInspectorTest, ADriverThatDoesNotAnswerIsAWarningAndItsLateAnswerCountsForNothing) {
  const CardReader cards = Reader();
  // Since the start sysfs has lost the cards, and the tool that is asked then hangs until somebody
  // writes; when it is asked again it fails.
  const std::string fifo = folder_.File("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  node_.WriteProgram("/usr/bin/hl-smi", "#!/bin/sh\n[ -e '" + fifo + ".asked' ] && exit 1\n: > '" +
                                            fifo + ".asked'\nread line < '" + fifo + "'\n");
  node_.Remove("/sys/class/accel");
  {
    CardInspector inspector(loop_, cards, milliseconds(20));
    Inspect(inspector);
    ASSERT_THAT(answers_, SizeIs(1));
    EXPECT_THAT(Found(), ::testing::ElementsAre("WARN cards"));
    EXPECT_THAT(answers_[0].report.results(0).message(),
                HasSubstr("not be looked at within 20 ms"));
    // It was asked, and is let go.
    UniqueFd end;
    while (!end) {
      end.Reset(::open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
      loop_.PostAfter(milliseconds(1), [this] { loop_.Stop(); });
      loop_.Run();
    }
  }
  loop_.Post([this] { loop_.Stop(); });
  loop_.Run();
  EXPECT_THAT(answers_, SizeIs(1));
}

}  // namespace
}  // namespace muster::testing
