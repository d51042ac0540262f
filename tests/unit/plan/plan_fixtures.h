// Short ways to write jobs and nodes in tests of the planner.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/plan/plan_job.h"
#include "coordinator/spec/env_file.h"
#include "muster/v1/job_spec.pb.h"

namespace muster {

inline v1::HostEntry& AddHost(v1::JobSpec& spec, const std::string& host, uint32_t slots,
                              const std::vector<uint32_t>& selected = {}) {
  v1::HostEntry& entry = *spec.add_hosts();
  entry.set_host(host);
  entry.set_slot_count(slots);
  for (uint32_t slot : selected) entry.add_selected_slots(slot);
  entry.set_source("hostfile:" + std::to_string(spec.hosts_size()));
  return entry;
}

// A job that runs train.py in /work; hosts are for the test to add.
inline v1::JobSpec ScriptJob(const std::vector<std::string>& args = {}) {
  v1::JobSpec spec;
  spec.mutable_program()->set_kind(v1::Program::SCRIPT);
  spec.mutable_program()->set_target("train.py");
  for (const std::string& arg : args) spec.mutable_program()->add_args(arg);
  spec.set_working_directory("/work");
  return spec;
}

inline v1::EnvAssignment JobEnv(std::string_view name, std::string_view value) {
  return LiteralEnv(name, value, v1::ENV_LAYER_JOB, "job.yaml:4");
}

inline NodeSlots Node(const std::string& id, std::vector<uint32_t> slots) {
  return {NodeId(id), std::move(slots), false};
}

inline std::string EnvOf(const v1::RankSpec& rank, std::string_view name) {
  for (const v1::EnvPair& pair : rank.env()) {
    if (pair.name() == name) return pair.value();
  }
  return "(unset)";
}

}  // namespace muster
