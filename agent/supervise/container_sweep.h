// Removes the containers of an attempt whose shim is gone, by a run of muster-shim, which knows how
// and can do it as the user of the job. Blocks, for a bounded time: call it on a worker thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace muster {

struct ContainerSweep {
  // Containers that still ran.
  uint32_t killed = 0;
  // Those that are left, and why, in words.
  std::vector<std::string> left;
};

// `bootstrap`: a serialized ShimBootstrap with engine, user and slots. `environ`: for muster-shim
// itself.
ContainerSweep SweepContainers(const std::string& shim_binary,
                               const std::vector<std::string>& environ,
                               const std::string& bootstrap, std::chrono::milliseconds limit);

// Parses what `muster-shim --remove-containers` prints. False when it is not whole.
bool ParseContainerSweep(const std::string& text, ContainerSweep& sweep);

}  // namespace muster
