#include "agent/session/coordinator_session.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/testing/sim_executor.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::SimExecutor;
using testing::SimQueue;

struct Sink final : AgentSessionSink {
  void Send(v1::AgentMessage message) override { sent.push_back(std::move(message)); }
  void Close(absl::Status status) override { closed = status; }
  std::vector<v1::AgentMessage> sent;
  std::optional<absl::Status> closed;
};

struct Owner final : CoordinatorSession::Owner {
  v1::Hello MakeHello() override {
    v1::Hello hello;
    hello.set_node_id("n");
    return hello;
  }
  v1::Heartbeat MakeHeartbeat() override { return {}; }
  absl::Status OnWelcome(const v1::Welcome&) override { return answer; }
  absl::Status OnBody(const v1::CoordinatorMessage& message) override {
    bodies.push_back(message);
    return answer;
  }
  void OnFresh() override { ++fresh; }
  void OnSessionEnded(const absl::Status& status) override { ended.push_back(status); }

  absl::Status answer;
  std::vector<v1::CoordinatorMessage> bodies;
  int fresh = 0;
  std::vector<absl::Status> ended;
};

class CoordinatorSessionTest : public ::testing::Test {
 protected:
  void Welcome(uint32_t major = 1) {
    v1::CoordinatorMessage message;
    v1::Welcome& welcome = *message.mutable_welcome();
    welcome.mutable_version()->set_major(major);
    welcome.mutable_heartbeat_interval()->set_seconds(1);
    welcome.mutable_lease_ttl()->set_seconds(5);
    session_.OnMessage(message);
  }
  void AckHeartbeat(uint64_t sequence) {
    v1::CoordinatorMessage message;
    message.mutable_heartbeat_ack()->set_sequence(sequence);
    session_.OnMessage(message);
  }
  absl::StatusCode ClosedWith() const {
    return sink_.closed ? sink_.closed->code() : absl::StatusCode::kOk;
  }

  SimQueue queue_;
  SimExecutor executor_{queue_};
  Owner owner_;
  Sink sink_;
  CoordinatorSession session_{executor_, owner_};
};

TEST_F(CoordinatorSessionTest, GreetsAndOpens) {
  EXPECT_FALSE(session_.open());
  session_.OnConnected(&sink_);
  ASSERT_EQ(sink_.sent.size(), 1u);
  EXPECT_EQ(sink_.sent[0].hello().node_id(), "n");
  EXPECT_EQ(sink_.sent[0].hello().version().major(), 1u);
  EXPECT_FALSE(session_.SendEvents({})) << "not before welcome";
  Welcome();
  EXPECT_TRUE(session_.open());
  EXPECT_TRUE(session_.SendEvents({}));
  session_.OnDisconnected(absl::UnavailableError("x"));
  EXPECT_FALSE(session_.open());
  EXPECT_EQ(owner_.ended.size(), 1u);
  session_.OnDisconnected(absl::UnavailableError("x"));
  EXPECT_EQ(owner_.ended.size(), 1u) << "told once";
}

TEST_F(CoordinatorSessionTest, ClosesOnBreachesOfOrder) {
  v1::CoordinatorMessage snapshot;
  snapshot.mutable_snapshot();
  session_.OnConnected(&sink_);
  session_.OnMessage(snapshot);
  EXPECT_EQ(ClosedWith(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(owner_.ended.size(), 1u);

  Sink second;
  session_.OnConnected(&second);
  Welcome();
  Welcome();
  EXPECT_TRUE(second.closed.has_value());
}

TEST_F(CoordinatorSessionTest, ClosesOnAnotherMajorVersion) {
  session_.OnConnected(&sink_);
  Welcome(2);
  EXPECT_EQ(ClosedWith(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorSessionTest, ClosesWithTheOwnersRefusal) {
  owner_.answer = absl::FailedPreconditionError("epoch");
  session_.OnConnected(&sink_);
  Welcome();
  EXPECT_EQ(ClosedWith(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(session_.fresh_since().has_value());
  queue_.RunFor(seconds(60));
  EXPECT_EQ(sink_.sent.size(), 1u) << "no heartbeat on a refused session";
}

TEST_F(CoordinatorSessionTest, IgnoresBodiesThatItDoesNotKnow) {
  session_.OnConnected(&sink_);
  Welcome();
  session_.OnMessage({});
  EXPECT_FALSE(sink_.closed.has_value());
  EXPECT_TRUE(owner_.bodies.empty());
}

TEST_F(CoordinatorSessionTest, IsFreshSinceTheAnsweredMessageWasSent) {
  const TimePoint start = queue_.clock().Now();
  session_.OnConnected(&sink_);
  queue_.RunFor(milliseconds(300));
  Welcome();
  EXPECT_EQ(session_.fresh_since(), start);
  EXPECT_EQ(owner_.fresh, 1);
  queue_.RunFor(milliseconds(2500));
  EXPECT_EQ(session_.fresh_since(), start);
  AckHeartbeat(3);
  EXPECT_EQ(session_.fresh_since(), start + milliseconds(2300));
  AckHeartbeat(1);
  EXPECT_EQ(owner_.fresh, 2) << "an old answer changes nothing";
  session_.OnDisconnected(absl::UnavailableError("x"));
  EXPECT_EQ(session_.fresh_since(), start + milliseconds(2300)) << "remembered over connections";
}

TEST_F(CoordinatorSessionTest, ClosesAfterSilenceWhileThereIsTimeForAnotherConnection) {
  session_.OnConnected(&sink_);
  Welcome();
  queue_.RunFor(milliseconds(2900));
  AckHeartbeat(1);
  queue_.RunFor(milliseconds(2900));
  EXPECT_FALSE(sink_.closed.has_value());
  queue_.RunFor(milliseconds(200));
  EXPECT_EQ(ClosedWith(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(owner_.ended.size(), 1u);
}

TEST_F(CoordinatorSessionTest, ClosesWhenNobodySaysWelcome) {
  session_.OnConnected(&sink_);
  queue_.RunFor(seconds(11));
  EXPECT_EQ(ClosedWith(), absl::StatusCode::kUnavailable);
}

TEST_F(CoordinatorSessionTest, ForgetsAnOlderConnection) {
  Sink second;
  session_.OnConnected(&sink_);
  Welcome();
  queue_.RunFor(milliseconds(1));
  session_.OnConnected(&second);
  EXPECT_GT(second.sent[0].hello().steady_ns(), sink_.sent[0].hello().steady_ns());
  EXPECT_EQ(owner_.ended.size(), 1u);
  EXPECT_FALSE(sink_.closed.has_value());
  Welcome();
  const size_t before = sink_.sent.size();
  queue_.RunFor(milliseconds(2500));
  EXPECT_EQ(sink_.sent.size(), before);
  EXPECT_EQ(second.sent.size(), 4u) << "hello, and heartbeats at once and every second";
}

TEST_F(CoordinatorSessionTest, SurvivesAnOddHeartbeatInterval) {
  session_.OnConnected(&sink_);
  v1::CoordinatorMessage message;
  message.mutable_welcome()->mutable_version()->set_major(1);
  message.mutable_welcome()->mutable_heartbeat_interval()->set_seconds(-5);
  session_.OnMessage(message);
  queue_.RunFor(milliseconds(2500));
  EXPECT_EQ(sink_.sent.size(), 4u);
}

}  // namespace
}  // namespace muster
