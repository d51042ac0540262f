// Jobs and nodes as JSON, for `-o json`. Pure. Names are those of the protocol; words are lower
// case with dashes (`rank-failed`), times are RFC 3339, what is not known is null.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "coordinator/cli/log_lines.h"
#include "muster/v1/job.pb.h"
#include "muster/v1/node.pb.h"

namespace muster {

// Words for people and programs: "running", "rank-failed", "prepare-failed", "exited", "alive".
std::string StateWord(v1::Job::State state);
std::string CauseWord(v1::Job::Cause cause);
std::string PhaseWord(v1::JobNode::Phase phase);
std::string RankWord(v1::JobRank::State state);
std::string NodeWord(v1::Node::State state);

// One object. Cause and exit status are apart; `exit_status` is null until the job has ended.
// `indent` < 0: on one line. Ends with a newline.
std::string JobToJson(const v1::Job& job, int indent = 2);
// {"jobs": [...]}, without ranks and nodes.
std::string JobsToJson(std::span<const v1::Job> jobs);
// {"nodes": [...]}.
std::string NodesToJson(const v1::ListNodesResponse& nodes);
// One line of output on one line: {"rank":..,"host":..,"stream":..,"time":..,"text":..}.
std::string LogLineToJson(const LogLine& line, std::string_view host);
// {"job_id": "..."}.
std::string JobIdToJson(std::string_view job_id);

}  // namespace muster
