// Asks libhlml about the cards, in a child process: the agent's own program with a hidden command.
// Blocks until it has answered or its time is over; any thread.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "muster/v1/node.pb.h"

namespace muster {

// First argument of the agent's program that makes it the child; the library follows.
inline constexpr char kHlmlQueryCommand[] = "hlml-query";

struct HlmlCall {
  // The agent's own program.
  std::string program;
  std::string library;
  std::vector<std::string> environ;
  std::chrono::milliseconds limit{3000};
};

// As AskHlml, or why the child did not answer.
absl::StatusOr<v1::Node> QueryHlml(const HlmlCall& call);

// Where the library is, below `root` or, for this machine, in `library_path` (LD_LIBRARY_PATH);
// empty: nowhere.
std::string FindHlml(const std::string& root, std::string_view library_path);

}  // namespace muster
