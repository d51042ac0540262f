// Reads job.yaml: what the user wrote, checked key by key, nothing filled in and no other file
// read. Pure. Scalars keep their text as written: `yes`, `1.10` and `0644` stay so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/config/diagnostics.h"
#include "coordinator/spec/env_names.h"
#include "coordinator/spec/selection.h"
#include "muster/v1/job.pb.h"

namespace muster {

// Largest job.yaml that is read.
inline constexpr size_t kMaxJobFileBytes = 1 << 20;

// Text with the line it was written at.
struct LocatedText {
  std::string text;
  int line = 0;
};

// What differs on one host: `node_env` and `node_overrides` together. Ranges of hosts are expanded.
struct NodeSettings {
  std::string host;
  // Line of its first mention.
  int line = 0;
  std::optional<std::string> python;
  std::optional<std::string> cwd;
  // Layer ENV_LAYER_NODE, literal values; `node_env` before `node_overrides`.
  std::vector<v1::EnvAssignment> env;
};

// What `on_coordinator_loss` says. Unset: ranks keep running.
struct CoordinatorLoss {
  std::optional<Duration> stop_after;
};

// Every key of job.yaml. Unset and empty mean: not written. Paths are left as written; they are
// relative to the folder of job.yaml.
struct JobFile {
  // The path that ParseJobYaml was given.
  std::string file;

  std::optional<std::string> name;
  // Exactly one of `hostfile` and `hosts`.
  std::optional<std::string> hostfile;
  std::vector<v1::HostEntry> hosts;
  std::optional<std::string> include;
  std::optional<std::string> exclude;
  std::optional<int> num_nodes;
  std::optional<int> slots_per_node;
  // Exactly one of `script`, `module` and `command`.
  std::optional<std::string> script;
  std::optional<std::string> module;
  std::vector<std::string> command;
  std::vector<std::string> args;
  std::optional<std::string> python;
  std::optional<std::string> cwd;
  std::optional<std::string> user;
  // Layer ENV_LAYER_JOB, literal values, source "FILE:LINE".
  std::vector<v1::EnvAssignment> env;
  std::vector<LocatedText> env_files;
  std::vector<ForwardRule> forward_env;
  std::vector<NodeSettings> nodes;
  // `auto`, `gaudi` or `none`.
  std::optional<std::string> devices;
  // `numa`, `cores` or `none`.
  std::optional<std::string> bind;
  // Processors to divide among the ranks of a node, as ParseCoreList returns them.
  std::optional<std::string> bind_core_list;
  // A name or address; empty: chosen on rank 0's node.
  std::optional<std::string> master_addr;
  std::optional<uint32_t> master_port;
  std::optional<Duration> grace;
  std::optional<Duration> start_timeout;
  std::optional<Duration> time_limit;
  // How long a start waits for cards that somebody still holds; 0: not at all.
  std::optional<Duration> device_wait;
  std::optional<CoordinatorLoss> on_coordinator_loss;
  std::optional<v1::RestartPolicy> restart;
  std::optional<v1::StallPolicy> stall;
  std::vector<v1::LogPolicy> log_policies;
  std::vector<std::string> skip_checks;
  std::vector<std::string> require_checks;
  std::optional<v1::ContainerSpec> container;
  std::optional<std::string> log_dir;
  // Bytes, at least kLeastLogQuota.
  std::optional<uint64_t> log_quota;

  // Line of every top-level key that was written.
  std::map<std::string, int, std::less<>> lines;

  // Where a top-level key was written; the whole file when it was not.
  Origin At(std::string_view key) const;
  // include, exclude, num_nodes and slots_per_node with their places, for SelectHosts.
  Selection HostSelection() const;
};

// Less could not hold what one read of a rank's pipe may return, twice.
inline constexpr uint64_t kLeastLogQuota = uint64_t{1} << 20;

// Whether a job file has to name its hosts: not where flags do.
enum class JobFileHosts { kNeeded, kMayLack };

// Reads a job file. `file` is its path as the user wrote it. Unknown keys, keys given twice, tabs
// as indentation, wrong types and values, launcher-owned variables in env, and missing or
// contradicting keys are errors, all reported at once; after an error the result is incomplete.
JobFile ParseJobYaml(std::string_view text, std::string_view file, Diagnostics& diagnostics,
                     JobFileHosts hosts = JobFileHosts::kNeeded);

}  // namespace muster
