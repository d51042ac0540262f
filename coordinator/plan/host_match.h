// Says which node a hostfile line means. Pure; usable from any thread. It never resolves names:
// only what agents reported about themselves counts, so two names of one machine are found to be
// one.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "muster/v1/agent.pb.h"
#include "muster/v1/job_spec.pb.h"

namespace muster {

// A node as its agent reported it.
struct NodeView {
  NodeId id;
  v1::NodeFacts facts;
};

// The answer for all entries of a hostfile.
struct HostMatches {
  // Per entry: index into the nodes given, or nothing when no node (or more than one) serves it.
  std::vector<std::optional<size_t>> node;
  // Entries that no node serves, by index, in hostfile order. A job waits for these.
  std::vector<size_t> missing;
  // Reasons why the hostfile cannot be used as it is, one line each: an entry that several nodes
  // answer to, or several entries that one node answers to. Waiting does not help.
  std::vector<std::string> errors;

  // True when every entry has a node of its own.
  bool complete() const { return missing.empty() && errors.empty(); }
};

// Matches every entry, whole, against node id, host name, fully qualified name and addresses of
// each node, in this order: the first kind that any node answers to decides. Letter case counts,
// unless nothing matches otherwise. Addresses are compared as numbers (`::1` is `0:0::1`), brackets
// ignored.
HostMatches MatchHosts(const google::protobuf::RepeatedPtrField<v1::HostEntry>& hosts,
                       std::span<const NodeView> nodes);

}  // namespace muster
