#include "coordinator/rpc/log_read_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace muster {
namespace {

using After = LogReadQueue::After;

// Reads everything that is stored, in pieces of at most `most`.
After ReadOn(LogReadQueue& queue, LogReadQueue::Turn& turn, uint64_t most = 1000) {
  turn.log.opened = true;
  turn.log.position = std::min(turn.log.stored, turn.log.position + most);
  return queue.Put(turn);
}

TEST(LogReadQueue, TakesTurns) {
  LogReadQueue queue(/*follow=*/false);
  queue.Reset({0, 1});
  queue.Grow(Rank{0}, 20);
  queue.Grow(Rank{1}, 10);
  std::vector<uint32_t> order;
  while (std::optional<LogReadQueue::Turn> turn = queue.Take()) {
    order.push_back(turn->log.rank.value);
    ReadOn(queue, *turn, 10);
  }
  EXPECT_EQ(order, (std::vector<uint32_t>{0, 1, 0}));
  EXPECT_EQ(queue.progress(), 60u) << "30 have arrived, and were read";
  EXPECT_EQ(queue.open_logs(), 0u);
}

TEST(LogReadQueue, EndsALogOnceThoughItIsMarkedAgainDuringItsLastTurn) {
  LogReadQueue queue(/*follow=*/true);
  queue.Reset({0, 1});
  std::optional<LogReadQueue::Turn> turn = queue.Take();
  ASSERT_EQ(turn->log.rank.value, 0u);
  // While its end is being sent, it is told again what is known already.
  queue.SetState(0, {.final_size = 0});
  queue.Grow(Rank{0}, 0);
  ASSERT_EQ(ReadOn(queue, *turn), After::kEnded);
  turn = queue.Take();
  ASSERT_TRUE(turn.has_value());
  EXPECT_EQ(turn->log.rank.value, 1u) << "not the ended one again";
  EXPECT_EQ(ReadOn(queue, *turn), After::kOpen) << "nothing is known of it yet";
  EXPECT_EQ(queue.open_logs(), 1u);
  EXPECT_FALSE(queue.Take().has_value());
  queue.Grow(Rank{1}, 5);
  turn = queue.Take();
  queue.SetState(1, {.final_size = 5});
  EXPECT_EQ(ReadOn(queue, *turn), After::kAllEnded);
  queue.SetState(1, {.abandoned = true});
  queue.AbandonAll();
  EXPECT_FALSE(queue.Grow(Rank{2}, 1));
  EXPECT_FALSE(queue.Take().has_value());
}

TEST(LogReadQueue, FollowsUntilTheSourceSaysThatItIsComplete) {
  LogReadQueue queue(/*follow=*/true);
  queue.Reset({7});
  queue.Grow(Rank{7}, 3);
  std::optional<LogReadQueue::Turn> turn = queue.Take();
  // It grows during its turn: ready again, and nothing of what was known is forgotten.
  queue.Grow(Rank{7}, 8);
  EXPECT_EQ(ReadOn(queue, *turn), After::kOpen);
  turn = queue.Take();
  ASSERT_TRUE(turn.has_value());
  EXPECT_EQ(turn->log.position, 3u);
  EXPECT_EQ(turn->log.stored, 8u);
  EXPECT_EQ(ReadOn(queue, *turn), After::kOpen);
  EXPECT_FALSE(queue.Take().has_value());
  queue.SetState(0, {.final_size = 9});
  turn = queue.Take();
  EXPECT_EQ(ReadOn(queue, *turn), After::kOpen) << "one byte is still on its way";
  queue.Grow(Rank{7}, 9);
  turn = queue.Take();
  EXPECT_EQ(ReadOn(queue, *turn), After::kAllEnded);
  EXPECT_EQ(turn->log.state.final_size, 9u);
}

TEST(LogReadQueue, GivesUpWhatIsMissing) {
  LogReadQueue queue(/*follow=*/true);
  queue.Reset({0});
  queue.SetState(0, {.final_size = 10});
  queue.Grow(Rank{0}, 4);
  std::optional<LogReadQueue::Turn> turn = queue.Take();
  EXPECT_EQ(ReadOn(queue, *turn), After::kOpen);
  queue.AbandonAll();
  turn = queue.Take();
  ASSERT_TRUE(turn.has_value());
  EXPECT_EQ(ReadOn(queue, *turn), After::kAllEnded);
  EXPECT_EQ(turn->log.stored, 4u);
  EXPECT_EQ(turn->log.state.final_size, 10u);
}

}  // namespace
}  // namespace muster
