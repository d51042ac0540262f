// Runs a program of the user to its end and takes what it prints. Blocks; for the probe.
#pragma once

#include <string>

#include "agent/shim/exec_image.h"
#include "muster/internal/probe.pb.h"

namespace muster::shim {

// Runs it with the environment of a rank in `working_directory`, without input and with its stderr
// thrown away. Dies with this process.
internal::ProbedProgram RunProgram(const internal::ProbeProgram& program, const Strings& env,
                                   const std::string& working_directory);

}  // namespace muster::shim
