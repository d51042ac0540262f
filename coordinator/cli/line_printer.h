// Prints lines of output one by one, labelled or as JSON, collecting them into large writes. For
// one thread at a time; blocks as stdout does.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <string>

#include "coordinator/cli/log_lines.h"
#include "muster/v1/job.pb.h"

namespace muster {

class LinePrinter {
 public:
  // `job` outlives the printer. JSON: one object per line.
  LinePrinter(const v1::Job& job, bool json, bool colour);

  void Print(const LogLine& line);
  // Writes what was collected. False once stdout takes nothing any more.
  bool Flush();

 private:
  const std::string& LabelOf(uint32_t rank);

  const v1::Job& job_;
  const bool json_;
  const bool colour_;
  absl::flat_hash_map<uint32_t, std::string> labels_;
  std::string text_;
  bool closed_ = false;
};

}  // namespace muster
