// Runs a program of the user to its end and takes what it prints. Blocks, until a time that is
// given; for the probe. The process that calls it must be a subreaper: whatever a program starts is
// then its descendant, and is killed when the program has ended, in another session, too.
#pragma once

#include <optional>
#include <string>

#include "agent/shim/exec_image.h"
#include "agent/shim/poller.h"
#include "muster/internal/probe.pb.h"

namespace muster::shim {

// Runs it with the environment of a rank in `working_directory`, or in / when that cannot be
// entered, and without input. Dies with this process. Nothing when it had not ended by `end`.
std::optional<internal::ProbedProgram> RunProgram(const internal::ProbeProgram& program,
                                                  const Strings& env,
                                                  const std::string& working_directory,
                                                  SteadyTime end);

}  // namespace muster::shim
