#include "agent/core/reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using std::chrono::milliseconds;
using Kind = Action::Kind;
using v1::Assignment;

const AttemptId kId{JobId("j1"), 1};

AttemptView View(Assignment::Desired desired, ShimState shim) {
  AttemptView view;
  view.id = kId;
  view.desired = desired;
  view.shim = shim;
  view.grace = milliseconds(1000);
  return view;
}

std::optional<Kind> KindFor(const AttemptView& view) {
  const std::vector<Action> actions = Reconcile({view});
  if (actions.empty()) return std::nullopt;
  EXPECT_EQ(actions.size(), 1u);
  return actions[0].kind;
}

struct Case {
  const char* name;
  AttemptView view;
  std::optional<Kind> expected;
};

TEST(Reconcile, MapsEveryPairOfDesiredAndActual) {
  const auto with = [](AttemptView view, auto change) {
    change(view);
    return view;
  };
  const auto prepared = [](AttemptView& v) { v.prepared = true; };
  const auto running = [](AttemptView& v) { v.prepared = v.run_told = true; };
  const auto stopped = [](AttemptView& v) { v.stopped = true; };
  const auto quit = [](AttemptView& v) { v.stopped = v.quit_told = true; };
  const auto remains = [](AttemptView& v) { v.stopped = v.remains = true; };
  const auto stopping = [](AttemptView& v) { v.stop_told = milliseconds(1000); };
  const auto slow_stop = [](AttemptView& v) { v.stop_told = milliseconds(2000); };
  const auto fast_stop = [](AttemptView& v) { v.stop_told = milliseconds(0); };
  const Case cases[] = {
      {"new", View(Assignment::PREPARED, ShimState::kNone), Kind::kLaunch},
      {"preparing", View(Assignment::PREPARED, ShimState::kFollowed), std::nullopt},
      {"sweeping", View(Assignment::PREPARED, ShimState::kSweeping), std::nullopt},
      {"dead", View(Assignment::PREPARED, ShimState::kGone), std::nullopt},
      {"run before prepared", View(Assignment::RUNNING, ShimState::kFollowed), std::nullopt},
      {"run", with(View(Assignment::RUNNING, ShimState::kFollowed), prepared), Kind::kRun},
      {"runs", with(View(Assignment::RUNNING, ShimState::kFollowed), running), std::nullopt},
      {"run of something unknown", View(Assignment::RUNNING, ShimState::kNone), Kind::kLose},
      {"stop", View(Assignment::STOPPED, ShimState::kFollowed), Kind::kStop},
      {"stops", with(View(Assignment::STOPPED, ShimState::kFollowed), stopping), std::nullopt},
      {"stop faster", with(View(Assignment::STOPPED, ShimState::kFollowed), slow_stop),
       Kind::kStop},
      {"never slower", with(View(Assignment::STOPPED, ShimState::kFollowed), fast_stop),
       std::nullopt},
      {"stop of nothing", View(Assignment::STOPPED, ShimState::kNone), Kind::kFinish},
      {"stopped", with(View(Assignment::STOPPED, ShimState::kFollowed), stopped), Kind::kQuit},
      {"ended alone", with(View(Assignment::RUNNING, ShimState::kFollowed), stopped), Kind::kQuit},
      {"quits", with(View(Assignment::STOPPED, ShimState::kFollowed), quit), std::nullopt},
      {"stopped and gone", with(View(Assignment::STOPPED, ShimState::kGone), stopped),
       std::nullopt},
      {"released while it runs", View(Assignment::RELEASED, ShimState::kFollowed), Kind::kStop},
      {"released, never started", View(Assignment::RELEASED, ShimState::kNone), Kind::kFinish},
      {"released", with(View(Assignment::RELEASED, ShimState::kFollowed), stopped), Kind::kForget},
      {"released and gone", with(View(Assignment::RELEASED, ShimState::kGone), stopped),
       Kind::kForget},
      {"released while something is left",
       with(View(Assignment::RELEASED, ShimState::kFollowed), remains), Kind::kQuit},
      {"released while something is left of a dead shim",
       with(View(Assignment::RELEASED, ShimState::kGone), remains), std::nullopt},
      {"released while swept", with(View(Assignment::RELEASED, ShimState::kSweeping), stopped),
       std::nullopt},
  };
  for (const Case& c : cases) EXPECT_EQ(KindFor(c.view), c.expected) << c.name;
}

TEST(Reconcile, StopsWithTheGraceOfTheAssignment) {
  AttemptView view = View(Assignment::STOPPED, ShimState::kFollowed);
  view.grace = milliseconds(4321);
  EXPECT_THAT(Reconcile({view}),
              ::testing::ElementsAre(Action{Kind::kStop, kId, milliseconds(4321)}));
}

TEST(Reconcile, OnlyStoppingNeedsNoJournalAndOnlyStartsWaitForTheCoordinator) {
  EXPECT_FALSE(NeedsJournal(Kind::kStop));
  for (const Kind kind :
       {Kind::kLaunch, Kind::kRun, Kind::kFinish, Kind::kLose, Kind::kQuit, Kind::kForget}) {
    EXPECT_TRUE(NeedsJournal(kind));
  }
  EXPECT_TRUE(StartsSomething(Kind::kLaunch));
  EXPECT_TRUE(StartsSomething(Kind::kRun));
  EXPECT_FALSE(StartsSomething(Kind::kStop));
}

}  // namespace
}  // namespace muster
