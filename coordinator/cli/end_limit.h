// The end of a command that has said all there is to say.
#pragma once

#include <chrono>

namespace muster {

// Output that nobody takes is given up before.
inline constexpr std::chrono::seconds kEndLimit{15};

// Ends the process with `status` should it still be there after `limit`, from 1 s on: where no more
// threads could be had, gRPC waits for ever for those that it could not make. Uses SIGALRM.
void LimitEnd(int status, std::chrono::seconds limit = kEndLimit);

}  // namespace muster
