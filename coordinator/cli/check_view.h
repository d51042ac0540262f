// What `coordinator check` found, for people and programs: nodes that found the same share a line.
// Pure.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "muster/v1/node.pb.h"

namespace muster {

// What came of a program that two hosts ran together (pair_jobs.h); `second` is empty where one
// cannot.
struct PairResult {
  std::string first;
  std::string second;
  std::string job_id;
  v1::CheckResult result;
};

// Everything that one check has found so far.
struct CheckedCluster {
  std::vector<v1::CheckedNode> nodes;
  v1::NodeReport cluster;
  std::vector<v1::CheckedPair> pairs;
  std::vector<PairResult> ping_pongs;
  std::vector<PairResult> demos;

  void Take(v1::CheckNodesResponse found);
  // By name, so that the order of answers does not show.
  void Sort();
  // True when something failed: a job would not start.
  bool failed() const;
};

// One line per distinct finding, those of nodes first:
//   [node1-7,9] ok
//   [node8] WARN memlock: ranks may lock only 65536 bytes of memory (fix: ulimit -l unlimited)
//   [node10] FAIL contact: no node serves it
//   [all] WARN same-software: torch differs: 2.7.1 on node1-7,9; 2.6.0 on node8
// then the network: a line for the whole, and one for each direction that is broken or slower than
// half of the median; then fi_pingpong and hccl_demo alike.
std::string RenderCheck(const CheckedCluster& found);

// {"ok": ..., "nodes": [{"host", "node_id", "error", "results": [{"check", "verdict", "message",
// "fix"}], "traits": {...}}], "cluster": [...], "network": [{"from", "to", "verdict", "message",
// "bytes_per_second", "address"}], "fi_pingpong": [...], "hccl_demo": [{"hosts": [], "job_id",
// "verdict", "message"}]}
std::string CheckToJson(const CheckedCluster& found);

}  // namespace muster
