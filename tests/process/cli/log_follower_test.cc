#include "coordinator/cli/log_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/process/cli/pipes.h"
#include "tests/process/cli/scripted_source.h"
#include "tests/unit/cli/log_bytes.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using testing::Event;
using testing::Piece;
using testing::ScriptedSource;

// Follows to the end and returns what was handed on, as rank:offset:data.
std::vector<std::string> Follow(ScriptedSource& source, LogFollower::Options options,
                                absl::Status* status) {
  std::vector<std::string> pieces;
  Event done;
  LogFollower follower(
      source, std::move(options),
      [&](const v1::ReadLogsResponse& piece) {
        pieces.push_back(std::to_string(piece.rank()) + ":" + std::to_string(piece.offset()) + ":" +
                         piece.data() + (piece.end() ? "." : ""));
        return true;
      },
      [&](const absl::Status& end) {
        *status = end;
        done.Set();
      });
  EXPECT_TRUE(done.Wait());
  return pieces;
}

TEST(LogFollower, ResumesWithoutRepeating) {
  ScriptedSource source;
  source.AddCall({{Piece(0, 0, "abc"), Piece(1, 0, "x", true)}, absl::UnavailableError("gone")});
  source.AddCall(
      {{Piece(0, 0, "ab"), Piece(0, 2, "cd"), Piece(1, 0, "x", true), Piece(0, 4, "", true)},
       absl::OkStatus()});
  LogFollower::Options options;
  options.reconnect = std::chrono::seconds(10);
  absl::Status status;
  EXPECT_THAT(Follow(source, options, &status), ElementsAre("0:0:abc", "1:0:x.", "0:3:d", "0:4:."));
  EXPECT_TRUE(status.ok());
  // It also tells what it has, so that the source need not send it.
  const std::vector<v1::ReadLogsRequest> requests = source.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].from_size(), 0);
  std::map<uint32_t, uint64_t> known;
  for (const v1::LogPosition& position : requests[1].from()) {
    EXPECT_EQ(position.attempt(), 1u);
    known[position.rank()] = position.offset();
  }
  EXPECT_THAT(known, ElementsAre(::testing::Pair(0, 3), ::testing::Pair(1, 1)));
}

TEST(LogFollower, StartsBehindWhatIsKnown) {
  ScriptedSource source;
  source.AddCall({{Piece(0, 0, "abcdef")}, absl::OkStatus()});
  LogFollower::Options options;
  options.from[0] = {1, 4};
  absl::Status status;
  EXPECT_THAT(Follow(source, options, &status), ElementsAre("0:4:ef"));
}

TEST(LogFollower, ResumesWithinZeros) {
  ScriptedSource source;
  const auto with_zeros = [](uint64_t offset, std::string data, uint64_t zeros) {
    v1::ReadLogsResponse piece = Piece(0, offset, std::move(data));
    piece.set_zeros(zeros);
    return piece;
  };
  source.AddCall({{with_zeros(0, "abc", 100)}, absl::UnavailableError("gone")});
  source.AddCall({{with_zeros(0, "a", 0), with_zeros(1, "bc", 50), with_zeros(53, "", 60),
                   Piece(0, 113, "d", true)},
                  absl::OkStatus()});
  LogFollower::Options options;
  options.reconnect = std::chrono::seconds(10);
  std::vector<std::string> pieces;
  Event done;
  LogFollower follower(
      source, std::move(options),
      [&](const v1::ReadLogsResponse& piece) {
        pieces.push_back(piece.data() + "@" + std::to_string(piece.offset()) + "+" +
                         std::to_string(piece.zeros()));
        return true;
      },
      [&](const absl::Status&) { done.Set(); });
  ASSERT_TRUE(done.Wait());
  EXPECT_THAT(pieces, ElementsAre("abc@0+100", "@103+10", "d@113+0"));
}

TEST(LogFollower, GivesUpWithoutReconnecting) {
  ScriptedSource source;
  source.AddCall({{}, absl::UnavailableError("gone")});
  absl::Status status;
  Follow(source, {}, &status);
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(source.requests().size(), 1u);
}

TEST(LogFollower, DoesNotRepeatWhatIsWrong) {
  ScriptedSource source;
  source.AddCall({{}, absl::NotFoundError("no job")});
  LogFollower::Options options;
  options.reconnect = std::chrono::seconds(10);
  absl::Status status;
  Follow(source, options, &status);
  EXPECT_TRUE(absl::IsNotFound(status));
}

TEST(LogFollower, CanBeCancelled) {
  ScriptedSource source;
  source.AddCall({{}, {}, true});
  Event done;
  absl::Status status;
  LogFollower follower(
      source, {}, [](const v1::ReadLogsResponse&) { return true; },
      [&](const absl::Status& end) {
        status = end;
        done.Set();
      });
  follower.Cancel();
  ASSERT_TRUE(done.Wait());
  EXPECT_TRUE(absl::IsCancelled(status));
}

TEST(LogFollower, FollowsANewAttemptFromItsBeginning) {
  ScriptedSource source;
  v1::ReadLogsResponse second = Piece(0, 0, "new");
  second.set_attempt(2);
  source.AddCall({{Piece(0, 0, "old", true), second, Piece(0, 3, "late")}, absl::OkStatus()});
  absl::Status status;
  EXPECT_THAT(Follow(source, {}, &status), ElementsAre("0:0:old.", "0:0:new"));
}

}  // namespace
}  // namespace muster
