#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/version.h"
#include "coordinator/session/event_window.h"
#include "coordinator/session/hello_check.h"
#include "coordinator/session/session_hub.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class RecordingSink final : public AgentSink {
 public:
  void Send(v1::CoordinatorMessage message) override { sent.push_back(std::move(message)); }
  void Close(absl::Status status) override { closed.push_back(std::move(status)); }
  std::vector<v1::CoordinatorMessage> sent;
  std::vector<absl::Status> closed;
};

v1::Hello GoodHello(const std::string& node = "node-1") {
  v1::Hello hello;
  hello.set_node_id(node);
  hello.set_agent_instance_id("i1");
  hello.set_boot_id("b1");
  hello.set_journal_id("j1");
  hello.mutable_version()->set_major(kProtocolMajor);
  return hello;
}

TEST(CheckHello, AcceptsACompleteOne) {
  EXPECT_TRUE(CheckHello(GoodHello(), "", std::nullopt).ok());
  EXPECT_TRUE(CheckHello(GoodHello(), "", NodeId("node-1")).ok());
}

TEST(CheckHello, NamesEveryMissingIdentifier) {
  const absl::Status status = CheckHello(v1::Hello(), "", std::nullopt);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* name : {"node_id", "agent_instance_id", "boot_id", "journal_id"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
}

TEST(CheckHello, RefusesWhatDoesNotFit) {
  v1::Hello hello = GoodHello();
  EXPECT_EQ(CheckHello(hello, "prod", std::nullopt).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CheckHello(hello, "", NodeId("node-2")).code(), absl::StatusCode::kPermissionDenied);
  hello.mutable_version()->set_major(kProtocolMajor + 1);
  const absl::Status status = CheckHello(hello, "", std::nullopt);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("upgrade the coordinator"));
  hello = GoodHello("bad name\n");
  EXPECT_EQ(CheckHello(hello, "", std::nullopt).code(), absl::StatusCode::kInvalidArgument);
  hello = GoodHello(std::string(300, 'x'));
  EXPECT_EQ(CheckHello(hello, "", std::nullopt).code(), absl::StatusCode::kInvalidArgument);
}

v1::EventBatch Batch(const std::vector<uint64_t>& seqs) {
  v1::EventBatch batch;
  for (uint64_t seq : seqs) batch.add_events()->set_seq(seq);
  return batch;
}

TEST(FirstNewEvent, SkipsWhatWasTakenBefore) {
  EXPECT_EQ(FirstNewEvent(Batch({1, 2, 3}), 0).value(), 0);
  EXPECT_EQ(FirstNewEvent(Batch({1, 2, 3}), 2).value(), 2);
  EXPECT_EQ(FirstNewEvent(Batch({1, 2, 3}), 3).value(), 3);
  EXPECT_EQ(FirstNewEvent(Batch({1, 2, 3}), 9).value(), 3);
  EXPECT_EQ(FirstNewEvent(Batch({}), 9).value(), 0);
}

TEST(FirstNewEvent, RefusesGaps) {
  EXPECT_EQ(FirstNewEvent(Batch({5}), 3).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FirstNewEvent(Batch({4, 6}), 3).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FirstNewEvent(Batch({4, 4}), 3).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FirstNewEvent(Batch({0}), 0).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SessionHub, TheNewestSessionOfANodeWins) {
  SessionHub hub;
  RecordingSink first_sink, second_sink;
  AgentSession& first = hub.Add(&first_sink, std::nullopt);
  first.Greet(GoodHello(), "s1");
  EXPECT_TRUE(hub.MakeLive(first));
  EXPECT_EQ(hub.NodeOf("s1"), NodeId("node-1"));

  AgentSession& second = hub.Add(&second_sink, std::nullopt);
  second.Greet(GoodHello(), "s2");
  EXPECT_TRUE(hub.MakeLive(second));
  ASSERT_EQ(first_sink.closed.size(), 1u);
  EXPECT_EQ(first_sink.closed[0].code(), absl::StatusCode::kAborted);
  EXPECT_EQ(hub.LiveOf(NodeId("node-1")), &second);
  EXPECT_EQ(hub.NodeOf("s1"), std::nullopt);
  EXPECT_EQ(hub.NodeOf("s2"), NodeId("node-1"));

  EXPECT_EQ(hub.Remove(first.handle()), std::nullopt) << "it was not the live one any more";
  EXPECT_EQ(hub.LiveOf(NodeId("node-1")), &second);
  EXPECT_EQ(hub.Remove(second.handle()), NodeId("node-1"));
  EXPECT_EQ(hub.LiveOf(NodeId("node-1")), nullptr);
}

TEST(SessionHub, ALateHelloOfAnOlderStreamDoesNotReplaceTheNewer) {
  SessionHub hub;
  RecordingSink old_sink, new_sink;
  AgentSession& old_session = hub.Add(&old_sink, std::nullopt);
  AgentSession& new_session = hub.Add(&new_sink, std::nullopt);
  new_session.Greet(GoodHello(), "s2");
  EXPECT_TRUE(hub.MakeLive(new_session));
  old_session.Greet(GoodHello(), "s1");
  EXPECT_FALSE(hub.MakeLive(old_session));
  EXPECT_EQ(old_sink.closed.size(), 1u);
  EXPECT_TRUE(new_sink.closed.empty());
}

TEST(AgentSession, SendsNothingBeforeItIsOpenAndNothingAfterItsEnd) {
  SessionHub hub;
  RecordingSink sink;
  AgentSession& session = hub.Add(&sink, std::nullopt);
  session.AckEvents(1);
  session.Assign({});
  session.AckHeartbeat(1, {});
  EXPECT_TRUE(sink.sent.empty());
  session.Greet(GoodHello(), "s1");
  session.Open({}, {});
  ASSERT_EQ(sink.sent.size(), 2u);
  EXPECT_EQ(sink.sent[0].welcome().session_id(), "s1");
  EXPECT_TRUE(sink.sent[1].has_snapshot());
  session.Close(absl::AbortedError("x"));
  session.Close(absl::AbortedError("y"));
  session.AckEvents(1);
  EXPECT_EQ(sink.sent.size(), 2u);
  EXPECT_EQ(sink.closed.size(), 1u);
}

TEST(AgentSession, ForgetsItsSinkWhenTheStreamIsOver) {
  SessionHub hub;
  RecordingSink sink;
  AgentSession& session = hub.Add(&sink, std::nullopt);
  session.Greet(GoodHello(), "s1");
  session.Open({}, {});
  session.Detach();
  session.AckEvents(1);
  session.Close(absl::AbortedError("x"));
  EXPECT_EQ(sink.sent.size(), 2u);
  EXPECT_TRUE(sink.closed.empty());
}

TEST(AgentSession, WantsOnlyNewerGenerations) {
  SessionHub hub;
  RecordingSink sink;
  AgentSession& session = hub.Add(&sink, std::nullopt);
  v1::Hello hello = GoodHello();
  v1::AttemptReport& report = *hello.add_attempts();
  report.mutable_key()->set_job_id("a");
  report.mutable_key()->set_attempt(1);
  report.set_generation(2);
  session.Greet(hello, "s1");
  const AttemptId held{JobId("a"), 1}, other{JobId("b"), 1};
  EXPECT_TRUE(session.HeldAtHello(held));
  EXPECT_FALSE(session.Wants(held, 2));
  EXPECT_TRUE(session.Wants(held, 3));
  EXPECT_TRUE(session.Wants(other, 1));
  session.Noted(other, 1);
  EXPECT_FALSE(session.Wants(other, 1));
  EXPECT_FALSE(session.HeldAtHello(other));
  session.Drop(held);
  EXPECT_FALSE(session.Knows(held));
}

}  // namespace
}  // namespace muster
