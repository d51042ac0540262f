// Runs a program that may hang, crash or print without end, and returns what it wrote. Blocks until
// it has ended or its time is over; then it and everything in its process group is killed. Any
// thread.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct ProgramCall {
  // Path of the program.
  std::string program;
  // With the name of the program first.
  std::vector<std::string> argv;
  // `NAME=value`.
  std::vector<std::string> environ;
  std::chrono::milliseconds limit{5000};
  size_t most_bytes = size_t{1} << 20;
};

// What the program wrote to its standard output. An error when it could not be started, ran longer
// than its limit (DEADLINE_EXCEEDED), wrote more than `most_bytes`, or did not end with code 0; the
// error has the start of what it wrote to its standard error.
absl::StatusOr<std::string> RunProgram(const ProgramCall& call);

// Path of an executable file called `name` in a list of folders such as PATH; empty: none.
std::string FindInPath(std::string_view name, std::string_view path);

}  // namespace muster
