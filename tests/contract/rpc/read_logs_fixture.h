// What the tests of ReadLogs share: a job with two ranks, its output, and what a call returned.
#pragma once

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "common/rpc/limits.h"
#include "tests/contract/rpc/rpc_world.h"

namespace muster {

// What one call of ReadLogs returned.
struct ReadResult {
  std::map<uint32_t, std::string> bytes;
  std::map<uint32_t, uint64_t> first_offset;
  std::map<uint32_t, uint64_t> missing;        // of the ranks that ended
  std::vector<uint32_t> order;                 // ranks in the order of their pieces
  std::map<uint32_t, std::string> unfinished;  // data that came with the end
  std::map<uint32_t, uint64_t> damaged_at;
  uint64_t told_zeros = 0;
  grpc::Status status;
};

class ReadLogsTest : public RpcWorld {
 protected:
  void SetUp() override {
    lease_ttl_ = std::chrono::milliseconds(600);
    RpcWorld::SetUp();
  }
  // A job with two running ranks whose log connection is open.
  void Run() {
    agent_ = &AddAgent("node-1");
    job_ = Submit({"node-1"}, 2).job_id();
    key_ = agent_->RunRanks(2);
    agent_->OpenUpload(key_, {0, 1});
  }
  v1::ReadLogsRequest Request(bool follow) {
    v1::ReadLogsRequest request;
    request.set_job_id(job_);
    request.set_follow(follow);
    return request;
  }
  ReadResult Read(const v1::ReadLogsRequest& request) {
    ReadResult result;
    const auto context = MakeContext();
    const auto stream = jobs_->ReadLogs(context.get(), request);
    v1::ReadLogsResponse response;
    while (stream->Read(&response)) {
      const uint32_t rank = response.rank();
      EXPECT_LE(response.data().size(), kMaxLogChunkBytes);
      EXPECT_EQ(response.attempt(), 1u);
      EXPECT_EQ(result.missing.count(rank), 0u) << "nothing after the end";
      const uint64_t first = result.first_offset.emplace(rank, response.offset()).first->second;
      EXPECT_EQ(response.offset(), first + result.bytes[rank].size()) << "without gaps";
      result.bytes[rank] += response.data() + std::string(response.zeros(), '\0');
      result.told_zeros += response.zeros();
      if (!response.data().empty()) result.order.push_back(rank);
      if (response.has_damaged_at()) result.damaged_at[rank] = response.damaged_at();
      if (response.end()) result.unfinished[rank] = response.data();
      if (response.end()) result.missing[rank] = response.missing_bytes();
    }
    result.status = stream->Finish();
    return result;
  }
  void EndJob(uint64_t size0, uint64_t size1) {
    for (const uint32_t rank : {0u, 1u}) {
      agent_->ExitRank(key_, rank);
      agent_->CloseLog(key_, rank, rank == 0 ? size0 : size1);
    }
    agent_->StopAttempt(key_);
  }

  TestAgent* agent_ = nullptr;
  std::string job_;
  v1::AttemptKey key_;
};

}  // namespace muster
