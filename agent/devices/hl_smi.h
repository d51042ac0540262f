// Asks the vendor's command line tool, as the last resort: where sysfs shows no card, as in some
// containers and virtual machines. Blocks until the tool has answered or its time is over; any
// thread.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <string>
#include <vector>

#include "agent/devices/hl_smi_text.h"

namespace muster {

struct HlSmiCall {
  std::string program;
  // The agent's environment. The tool gets it with a HABANA_LOGS that it can write to, and without
  // ENABLE_CONSOLE, which would mix its log into the table.
  std::vector<std::string> environ;
  // For all of it.
  std::chrono::milliseconds limit{5000};
};

// Asks for everything; a tool that does not know all fields is asked again for those that every
// version has. An error names the program.
absl::StatusOr<HlSmiText> AskHlSmi(const HlSmiCall& call);

// The environment that programs and libraries of the vendor are run in: `environ` without
// ENABLE_CONSOLE and with HABANA_LOGS as `logs`. Pure.
std::vector<std::string> VendorEnvironment(const std::vector<std::string>& environ,
                                           const std::string& logs);

// A private folder for logs that goes away with the object.
class LogFolder {
 public:
  LogFolder();
  ~LogFolder();
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;
  // Where none could be made: /tmp.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool made_ = false;
};

}  // namespace muster
