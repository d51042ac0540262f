// Tables for people. Pure: values in, text with its final newline out.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "muster/v1/job.pb.h"
#include "muster/v1/node.pb.h"

namespace muster {

// Columns as wide as their widest cell, two blanks between them, none at the end of a line.
std::string RenderTable(const std::vector<std::vector<std::string>>& rows);

// Everything about one job. More than `max_ranks` ranks are told in numbers, but for those that
// stand out. `now`: seconds since 1970.
std::string RenderJob(const v1::Job& job, int64_t now, size_t max_ranks);
std::string RenderJobs(std::span<const v1::Job> jobs, int64_t now);
// "3 s ago"; "-" when there is no such time.
std::string Ago(const google::protobuf::Timestamp& time, int64_t now);
std::string RenderNodes(const v1::ListNodesResponse& nodes, int64_t now);

// What changed between two states of a job, one line each, for `watch`.
std::vector<std::string> DescribeChanges(const v1::Job& before, const v1::Job& after);

}  // namespace muster
