// The job that sends messages over EFA between a pair of nodes: fi_pingpong of libfabric, which is
// the only way to see whether a security group lets EFA through. Pure.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cli/check_view.h"
#include "coordinator/cli/pair_jobs.h"

namespace muster {

inline constexpr char kPingPong[] = "fi_pingpong";

// One rank on each host, without cards. The program of the first waits at the rendezvous of the
// job, that of the second connects to it; messages then go both ways. It succeeds when both end
// with 0.
v1::JobSpec PingPongJob(const v1::HostEntry& first, const v1::HostEntry& second,
                        const v1::JobSpec& base);

// Which of the hosts can be tested.
struct PingPongHosts {
  std::vector<v1::HostEntry> able;
  // Hosts with EFA devices that lack the program, one result each.
  std::vector<PairResult> lacking;
};
// Hosts without EFA devices are left out: there is nothing to test.
PingPongHosts HostsForPingPong(const std::vector<v1::HostEntry>& hosts,
                               const CheckedCluster& found);

}  // namespace muster
