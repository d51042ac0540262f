// What an agent answers to whoever asks what its node is like.
#include "agent/core/check_responder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/fake_node_inspector.h"
#include "tests/testing/fake_user_gate.h"
#include "tests/testing/sim_executor.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class FakeNetwork final : public NetworkTester {
 public:
  void Listen(const v1::NetworkListen&, std::chrono::milliseconds, Listening done) override {
    done(port);
  }
  void Connect(const v1::NetworkConnect&, std::chrono::milliseconds, Measured done) override {
    done(rate);
  }
  absl::StatusOr<uint32_t> port = 4000;
  absl::StatusOr<v1::NetworkRate> rate = v1::NetworkRate();
};

class CheckResponderTest : public ::testing::Test {
 protected:
  CheckResponderTest() {
    ComposeContext context;
    context.node = NodeId("node-1");
    context.environ = {"PATH=/bin", "FROM_AGENT=1"};
    google::protobuf::RepeatedPtrField<std::string> addresses;
    *addresses.Add() = "192.0.2.1";
    responder_ = std::make_unique<CheckResponder>(
        executor_, users_, &inspector_, &network_,
        [context](const v1::LaunchSpec&, const RunAs& user,
                  const std::function<void(ComposeContext)>& done) {
          ComposeContext own = context;
          own.user = user;
          done(std::move(own));
        },
        [addresses] { return addresses; },
        [this](v1::CheckReport report) { reports_.push_back(std::move(report)); },
        [this](const Deed& deed) { deeds_.push_back(deed); });
  }
  static v1::RunCheck Request(const std::string& id) {
    v1::RunCheck request;
    request.set_check_id(id);
    request.mutable_node()->mutable_launch()->set_working_directory("/");
    request.mutable_node()->mutable_launch()->add_ranks();
    return request;
  }
  std::string OnlyError() {
    queue_.RunReady();
    EXPECT_THAT(reports_, SizeIs(1));
    return reports_.empty() ? "" : reports_[0].error();
  }

  SimQueue queue_;
  SimExecutor executor_{queue_};
  FakeUserGate users_{executor_};
  FakeNodeInspector inspector_{executor_};
  FakeNetwork network_;
  std::vector<v1::CheckReport> reports_;
  std::vector<Deed> deeds_;
  std::unique_ptr<CheckResponder> responder_;
};

TEST_F(CheckResponderTest, LooksWithTheEnvironmentThatRanksWouldHave) {
  inspector_.found.report.add_results()->set_check("disk");
  v1::RunCheck request = Request("c1");
  request.mutable_node()->mutable_launch()->set_submitter("alice");
  responder_->OnRunCheck(request);
  queue_.RunReady();
  ASSERT_THAT(reports_, SizeIs(1));
  ASSERT_THAT(deeds_, SizeIs(1));
  EXPECT_EQ(deeds_[0].kind, Deed::Kind::kCheck);
  EXPECT_EQ(deeds_[0].submitter, "alice");
  EXPECT_EQ(reports_[0].check_id(), "c1");
  EXPECT_EQ(reports_[0].node().results(0).check(), "disk");
  ASSERT_THAT(inspector_.bootstraps, SizeIs(1));
  EXPECT_THAT(inspector_.bootstraps[0].ranks(0).env(), ::testing::Contains("FROM_AGENT=1"));
}

TEST_F(CheckResponderTest, ProblemsAndWarningsOfPartsAreResultsOnce) {
  v1::CheckResult& result = *inspector_.found.report.add_results();
  result.set_check("memlock");
  result.set_verdict(v1::FAIL);
  inspector_.found.problems.resize(2);
  inspector_.found.problems[0].set_check("memlock");
  inspector_.found.problems[1].set_check("cards");
  inspector_.found.problems[1].set_message("card 3 is in reset");
  inspector_.found.warnings = {"a card is warm"};
  responder_->OnRunCheck(Request("c1"));
  queue_.RunReady();
  ASSERT_THAT(reports_, SizeIs(1));
  std::vector<std::string> found;
  for (const v1::CheckResult& one : reports_[0].node().results()) {
    found.push_back(one.check() + " " + v1::Verdict_Name(one.verdict()));
  }
  EXPECT_THAT(found, ElementsAre("memlock FAIL", "node WARN", "cards FAIL"));
}

TEST_F(CheckResponderTest, WhoMayNotRunHereIsTold) {
  users_.users.insert_or_assign(
      "bob", absl::PermissionDeniedError("this node does not run jobs of user bob"));
  v1::RunCheck request = Request("c1");
  request.mutable_node()->mutable_launch()->set_user("bob");
  responder_->OnRunCheck(request);
  queue_.RunReady();
  ASSERT_THAT(reports_, SizeIs(1));
  EXPECT_EQ(reports_[0].node().results(0).check(), "user");
  EXPECT_EQ(reports_[0].node().results(0).verdict(), v1::FAIL);
  EXPECT_THAT(inspector_.asked, IsEmpty());
}

TEST_F(CheckResponderTest, AnInspectionThatHangsIsAnsweredByTheLimitAndOnlyOnce) {
  inspector_.hold = true;
  v1::RunCheck request = Request("c1");
  request.mutable_limit()->set_seconds(1);
  responder_->OnRunCheck(request);
  queue_.RunFor(std::chrono::seconds(2));
  EXPECT_THAT(OnlyError(), HasSubstr("not done within 1000 ms"));
  inspector_.Answer();
  queue_.RunReady();
  EXPECT_THAT(reports_, SizeIs(1));
}

TEST_F(CheckResponderTest, TooManyAtOnceAreRefusedUntilOneIsDone) {
  inspector_.hold = true;
  for (int i = 0; i < 8; ++i) responder_->OnRunCheck(Request("c"));
  responder_->OnRunCheck(Request("late"));
  EXPECT_THAT(OnlyError(), HasSubstr("makes 8 checks already"));
  inspector_.Answer();
  queue_.RunReady();
  EXPECT_THAT(reports_, SizeIs(9));
  responder_->OnRunCheck(Request("again"));
  queue_.RunReady();
  EXPECT_THAT(reports_, SizeIs(9));
}

TEST_F(CheckResponderTest, EndsOfANetworkTest) {
  v1::RunCheck listen;
  listen.mutable_listen()->set_token("t");
  responder_->OnRunCheck(listen);
  v1::RunCheck connect;
  connect.mutable_connect()->set_port(4000);
  responder_->OnRunCheck(connect);
  queue_.RunReady();
  ASSERT_THAT(reports_, SizeIs(2));
  EXPECT_EQ(reports_[0].listening().port(), 4000u);
  EXPECT_THAT(reports_[0].listening().addresses(), ElementsAre("192.0.2.1"));
  EXPECT_TRUE(reports_[1].has_rate());
  network_.port = absl::ResourceExhaustedError("too many network tests run on this node");
  responder_->OnRunCheck(listen);
  EXPECT_THAT(reports_[2].error(), HasSubstr("too many"));
}

TEST_F(CheckResponderTest, WhatItDoesNotKnowIsAnError) {
  responder_->OnRunCheck({});
  EXPECT_THAT(OnlyError(), HasSubstr("does not know"));
}

}  // namespace
}  // namespace muster::testing
