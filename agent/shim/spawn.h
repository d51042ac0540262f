// Starts the process of one rank. The child runs no library code that could lock or allocate
// between clone and execve; whatever fails there comes back over a pipe that execve closes.
// Single-threaded: the parent death signal of a rank is bound to the thread that called Spawn,
// which must be the shim's only one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/shim/exec_image.h"
#include "agent/shim/run_as.h"
#include "common/io/unique_fd.h"

namespace muster::shim {

using CpuNumbers = google::protobuf::RepeatedField<uint32_t>;

struct SpawnRequest {
  // Path for execve.
  const std::string* path = nullptr;
  const Strings* argv = nullptr;
  const Strings* env = nullptr;
  const std::string* working_directory = nullptr;
  // User that the process is to be; null: as the shim.
  const UserIds* user = nullptr;
  // Its stdin; -1: nothing to read.
  int stdin_fd = -1;
  // Descriptor of the cgroup v2 directory that the process is to live in; -1: none.
  int cgroup_fd = -1;
  // Processors that the process may run on; null or empty: those of the shim.
  const CpuNumbers* cpus = nullptr;
  // NUMA node whose memory it prefers.
  std::optional<uint32_t> memory_node;
  // See Inherited.
  std::optional<int> oom_score_adj;
  // Capacity wanted for each pipe of output.
  int pipe_bytes = 1 << 20;
};

// A step that failed, with its errno.
struct SpawnFailure {
  std::string step;
  int error_number = 0;
};

// A started child. It has not necessarily executed its program yet.
struct Spawned {
  pid_t pid = -1;
  // Read ends, non-blocking.
  UniqueFd stdout_fd;
  UniqueFd stderr_fd;
  // Readable when the program was executed (end of file) or could not be (ReadExecStatus).
  UniqueFd exec_status_fd;
};

// As fork: 0 in the child, -1 with errno on failure. For a child that does not execute anything.
pid_t ForkProcess();

// In a child: closes all descriptors but the standard ones and `fd`, which is none of them.
// Descriptors of locks keep the locks: no child that may hang can keep them.
bool CloseAllBut(int fd);

// Starts a process. On failure of a step in the parent nothing is left behind.
std::optional<SpawnFailure> Spawn(const SpawnRequest& request, Spawned& spawned);

// What `exec_status_fd` says so far.
enum class ExecStatus { kPending, kExecuted, kFailed };
// Reads it without blocking. `failure` is set for kFailed. Adds steps that failed and without which
// the process goes on to `skipped`.
ExecStatus ReadExecStatus(int exec_status_fd, SpawnFailure& failure,
                          std::vector<SpawnFailure>& skipped);

}  // namespace muster::shim
