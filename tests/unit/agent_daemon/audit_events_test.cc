#include "agent/daemon/audit_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

Deed Launch() {
  return {.kind = Deed::Kind::kLaunch,
          .attempt = {JobId("j42"), 1},
          .submitter = "alice",
          .user = "bob",
          .argv = {"python", "-u", "train me.py"},
          .directory = "/work",
          .ranks = {0, 1, 2, 7}};
}

TEST(AuditEvents, ALaunchSaysWhatAsWhomAndByWhoseOrder) {
  const AuditEvent event = EventOf(Launch(), {"muster://c/coordinator", "0a"}, "root");
  EXPECT_EQ(event.event, "launch");
  EXPECT_EQ(event.decision, "allowed");
  EXPECT_EQ(event.who, "alice");
  EXPECT_EQ(event.serial, "0a");
  EXPECT_EQ(event.object, "job j42 attempt 1");
  EXPECT_EQ(event.source, "muster://c/coordinator");
  EXPECT_THAT(event.more,
              ElementsAre(Pair("user", "bob"), Pair("ranks", "0-2,7"), Pair("cwd", "/work"),
                          Pair("argv", "python -u \"train me.py\"")));
  Deed own = Launch();
  own.user.clear();
  EXPECT_EQ(EventOf(own, {}, "root").more[0].second, "root");
}

TEST(AuditEvents, ARefusedLaunchSaysWhy) {
  Deed deed = Launch();
  deed.kind = Deed::Kind::kRefuseLaunch;
  deed.detail = "user: not eve";
  const AuditEvent event = EventOf(deed, {}, "root");
  EXPECT_EQ(event.event, "refuse-launch");
  EXPECT_EQ(event.decision, "refused");
  EXPECT_EQ(event.detail, "user: not eve");
}

TEST(AuditEvents, AnOrderAboutWhatRunsDoesNotRepeatIt) {
  Deed deed = Launch();
  deed.kind = Deed::Kind::kSignal;
  deed.ranks = {3};
  deed.detail = "SIGUSR1";
  EXPECT_THAT(EventOf(deed, {}, "root").more, ElementsAre(Pair("ranks", "3")));
}

TEST(AuditEvents, ACheckIsOfTheNodeAndTellsWhatItWasMadeFor) {
  Deed deed = Launch();
  deed.kind = Deed::Kind::kCheck;
  const AuditEvent event = EventOf(deed, {}, "root");
  EXPECT_EQ(event.event, "check");
  EXPECT_EQ(event.object, "node");
  EXPECT_EQ(event.who, deed.submitter);
}

TEST(AuditEvents, WhatWouldBeCutOffIsNotMade) {
  EXPECT_LT(ArgvText(std::vector<std::string>(1'000'000, "x")).size(), 2 * kMaxAuditMoreBytes);
}

TEST(AuditEvents, ARenewalNamesNewAuthorities) {
  CertificateLook look;
  look.serial = "0b";
  EXPECT_TRUE(RenewalEvent(look, "node-1").more.empty());
  look.new_authorities = {"aa", "bb"};
  EXPECT_THAT(RenewalEvent(look, "node-1").more, ElementsAre(Pair("new_authorities", "aa bb")));
}

}  // namespace
}  // namespace muster
