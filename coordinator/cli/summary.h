// What people read about a job while it starts and when it has ended. Pure: values in, text out, no
// trailing newline unless said.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/v1/job.pb.h"

namespace muster {

// What the end of a job is told with, beyond the job itself.
struct EndContext {
  // Folder of the rank files; empty when there are none.
  std::string log_folder;
  // Command that shows the whole output of the first failing rank or of the job, when there are no
  // rank files; empty: unknown.
  std::string log_command;
  // Last lines of the first failing rank, oldest first, without control sequences.
  std::vector<std::string> last_lines;
  // True when all nodes are this machine, so that what is known here holds there.
  bool local = false;
  // Bytes free in and size of /dev/shm here.
  std::optional<uint64_t> shm_free_bytes;
  std::optional<uint64_t> shm_total_bytes;
  // Bytes of output that were lost on the way from the ranks to the coordinator.
  uint64_t lost_bytes = 0;
};

// "exited with code 5", "was killed by SIGKILL (signal 9)", "could not be started: ...".
std::string DescribeEnd(const v1::ExitStatus& status);

// What a job waits for before its ranks run, naming at most `limit` hosts (0: all); empty when it
// waits for nothing.
std::string WaitingFor(const v1::Job& job, size_t limit);

// Problems of nodes, one line each: `[node-1,node-2] check: message`. Equal ones are folded.
std::vector<std::string> FoldProblems(const v1::Job& job);

// What failed first, for the moment when it is seen: headline, hint, last lines. One element per
// line.
std::vector<std::string> FailureNotice(const v1::Job& job, const EndContext& context);

// Why a job did not succeed, for the last lines on stderr. One element per line; the first is the
// headline. Lines that begin with a blank continue the one before.
std::vector<std::string> FailureReport(const v1::Job& job, const EndContext& context);

// What a successful job amounted to, one element per line.
std::vector<std::string> SuccessSummary(const v1::Job& job, const EndContext& context);

// Lines about warnings that `after` has and `before` had not.
std::vector<std::string> NewWarnings(const v1::Job& before, const v1::Job& after);

// "0.12 s", "12.3 s", "3 min 12 s", "2 h 3 min".
std::string FormatSeconds(double seconds);

// With its sign.
double SecondsOf(const google::protobuf::Duration& duration);

// "512 bytes", "1.5 MB".
std::string FormatBytes(uint64_t bytes);

// Seconds between two times of a job; nothing when either is not set.
std::optional<double> SecondsBetween(const google::protobuf::Timestamp& from,
                                     const google::protobuf::Timestamp& to);

}  // namespace muster
