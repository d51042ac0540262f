// Clears up what a test program leaves behind that is killed: a process of its own (guard.py), one
// for the program, told of every sandbox, which ends when the program has. Any thread.
#pragma once

#include <string>

namespace muster::testing {

// A sandbox has begun, with that folder, which is its mark, too.
void GuardSandbox(const std::string& folder);
// It has ended, and has cleared up itself.
void UnguardSandbox(const std::string& folder);

}  // namespace muster::testing
