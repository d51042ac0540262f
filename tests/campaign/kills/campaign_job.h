// One job of a campaign: what its ranks do, and whether what became of it is true. Everything about
// it follows from one random generator.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "muster/v1/job.pb.h"

namespace muster::testing {

class CampaignJob {
 public:
  // One rank on each of `nodes` nodes, in slot `lane` of each. `folder` is for marks of the ranks.
  CampaignJob(uint64_t number, int nodes, uint32_t lane, const std::string& folder,
              std::mt19937_64& random);

  const v1::SubmitJobRequest& request() const { return request_; }
  uint32_t lane() const { return lane_; }
  size_t ranks() const { return ranks_.size(); }
  std::string id;
  // Somebody asked for its end.
  bool cancelled = false;

  // What is wrong with the end of the job; empty when nothing is. `loss_allowed`: somebody has
  // killed a shim, so ranks may be lost, but nothing may be invented.
  std::string CheckEnd(const v1::Job& job, bool loss_allowed) const;
  // What is wrong with the frame file of a rank.
  std::string CheckLog(const v1::JobRank& rank, const std::string& frames) const;

 private:
  struct RankPlan {
    int exit_code = 0;
    // Bytes of its stdout and stderr.
    std::string output[2];
  };

  std::string StartsFile(size_t rank) const;
  std::string CheckRank(const v1::JobRank& rank, const v1::Job& job, bool loss_allowed) const;

  const uint64_t number_;
  const uint32_t lane_;
  const std::string folder_;
  v1::SubmitJobRequest request_;
  std::vector<RankPlan> ranks_;
  int expected_code_ = 0;
};

}  // namespace muster::testing
