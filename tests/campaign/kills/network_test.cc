// A bad network between agents and the coordinator, under running jobs: what it does is never the
// end of a job within the patience of a lease, and nothing that it delivers twice happens twice.
#include <gtest/gtest.h>

#include "tests/campaign/kills/campaign.h"

namespace muster {
namespace {

using testing::Campaign;

TEST(Network, ThatDelaysHoldsSwallowsAndCutsLosesNothing) {
  Campaign campaign({.relayed = true});
  const int faults = Campaign::Kills(15);
  for (int done = 0; done < faults && campaign.ok();) {
    campaign.Step();
    done += campaign.HarmTheNetwork() ? 1 : 0;
  }
  campaign.Finish();
  EXPECT_TRUE(campaign.ok()) << campaign.Report();
  EXPECT_GT(campaign.jobs_checked(), 0u);
  RecordProperty("jobs", static_cast<int>(campaign.jobs_checked()));
}

TEST(Network, ThatDeliversTwiceStartsNothingTwice) {
  Campaign campaign({.relayed = true});
  const int replays = Campaign::Kills(8);
  for (int done = 0; done < replays && campaign.ok();) {
    campaign.Step();
    done += campaign.ReplayConnections() ? 1 : 0;
  }
  campaign.Finish();
  EXPECT_TRUE(campaign.ok()) << campaign.Report();
  EXPECT_GT(campaign.jobs_checked(), 0u);
  EXPECT_GT(campaign.replayed(), 0u);
  RecordProperty("jobs", static_cast<int>(campaign.jobs_checked()));
}

// Steps until a job has ended, when others run.
void GetGoing(Campaign& campaign) {
  ASSERT_TRUE(testing::WaitUntil([&, before = campaign.jobs_checked()] {
    campaign.Step();
    return campaign.jobs_checked() > before;
  }));
}

TEST(Network, ThatIsSilentForLongerThanHeartbeatsWaitIsForgivenWithinALease) {
  Campaign campaign({.relayed = true});
  GetGoing(campaign);
  for (int node = 1; node <= Campaign::kNodes; ++node) {
    campaign.relay(node).Set({.hold_to_server = true, .hold_to_client = true});
  }
  campaign.cluster().AwaitNodes(Campaign::kNodes, "suspect");
  campaign.Finish();
  EXPECT_TRUE(campaign.ok()) << campaign.Report();
}

// Silence for a lease takes ten seconds.
TEST(Network, ThatIsSilentForALeaseLosesItsNodesAndSaysSo) {
  if (!Campaign::IsLong()) GTEST_SKIP() << "in the nightly tier";
  Campaign campaign({.loss_allowed = true, .relayed = true});
  for (int round = 0; round < 5 && campaign.ok(); ++round) {
    GetGoing(campaign);
    campaign.relay(1).Set({.hold_to_server = true, .hold_to_client = true});
    campaign.cluster().AwaitNodes(1, "lost");
    // What was held comes late: nothing of it may count.
    campaign.relay(1).Set({});
    campaign.cluster().AwaitNodes(Campaign::kNodes);
  }
  campaign.Finish();
  EXPECT_TRUE(campaign.ok()) << campaign.Report();
  EXPECT_GT(campaign.lost_jobs(), 0u);
}

}  // namespace
}  // namespace muster
