// Processes that are killed at random moments under running jobs: nothing is lost, nothing is
// invented, nothing is left.
#include <gtest/gtest.h>

#include "tests/campaign/kills/campaign.h"

namespace muster {
namespace {

using testing::Campaign;

TEST(Kills, OfAgentsLoseNothing) {
  Campaign campaign;
  const int kills = Campaign::Kills(1000);
  for (int done = 0; done < kills && campaign.ok();) {
    campaign.Step();
    done += campaign.KillAnAgent() ? 1 : 0;
  }
  campaign.Finish();
  EXPECT_TRUE(campaign.ok()) << campaign.Report();
  EXPECT_GT(campaign.jobs_checked(), 0u);
  RecordProperty("jobs", static_cast<int>(campaign.jobs_checked()));
}

TEST(Kills, OfTheCoordinatorLoseNothing) {
  Campaign campaign;
  const int kills = Campaign::Kills(100);
  for (int done = 0; done < kills && campaign.ok();) {
    campaign.Step();
    done += campaign.KillTheCoordinator() ? 1 : 0;
  }
  campaign.Finish();
  EXPECT_TRUE(campaign.ok()) << campaign.Report();
  EXPECT_GT(campaign.jobs_checked(), 0u);
  RecordProperty("jobs", static_cast<int>(campaign.jobs_checked()));
}

TEST(Kills, OfBothTogetherLoseNothing) {
  Campaign campaign;
  const int kills = Campaign::Kills(100);
  for (int done = 0; done < kills && campaign.ok();) {
    campaign.Step();
    done += campaign.KillTheCoordinator() ? 1 : 0;
    done += campaign.KillAnAgent() ? 1 : 0;
  }
  campaign.Finish();
  EXPECT_TRUE(campaign.ok()) << campaign.Report();
}

TEST(Kills, OfJobsByTheirUsersLeaveNothing) {
  Campaign campaign;
  const int cancels = Campaign::Kills(100);
  while (campaign.cancelled_jobs() < static_cast<size_t>(cancels) && campaign.ok()) {
    campaign.Step();
    campaign.CancelAJob();
  }
  campaign.Finish();
  EXPECT_TRUE(campaign.ok()) << campaign.Report();
}

TEST(Kills, OfShimsAreTold) {
  Campaign campaign({.loss_allowed = true});
  const int kills = Campaign::Kills(100);
  for (int done = 0; done < kills && campaign.ok();) {
    campaign.Step();
    done += campaign.KillAShim() ? 1 : 0;
  }
  campaign.Finish();
  EXPECT_TRUE(campaign.ok()) << campaign.Report();
  EXPECT_GT(campaign.lost_jobs(), 0u);
  RecordProperty("lost_jobs", static_cast<int>(campaign.lost_jobs()));
}

}  // namespace
}  // namespace muster
