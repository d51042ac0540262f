// What the shim does to itself before anything else, and what it must undo in the ranks. Call once,
// first thing in main, on the only thread.
#pragma once

#include <sys/resource.h>

#include <optional>

namespace muster::shim {

// Signals that the shim ignores; every rank gets the default disposition back.
extern const int kIgnoredSignals[];
extern const int kIgnoredSignalCount;

// Settings of the process as they were inherited, kept for the ranks.
struct Inherited {
  // Value to write to a rank's oom_score_adj; nothing when it has it already.
  std::optional<int> rank_oom_score_adj;
  // Limit of file sizes: log files end below it.
  rlim_t file_size_limit = RLIM_INFINITY;
  // Hard limit of open files.
  rlim_t open_files_limit = RLIM_INFINITY;
};

// Closes every descriptor but the standard ones (and opens /dev/null on those that are closed),
// leaves the caller's session, ignores signals meant for others, blocks SIGCHLD and SIGTERM for a
// signalfd, becomes the parent of orphans, raises its own limit of open files and asks the kernel
// to spare it when memory runs out. Nothing of this is fatal.
Inherited SetUpProcess();

// Puts /dev/null on stdin and stdout, and `shim.log` in `directory` on stderr, so that no terminal
// and no pipe of the caller is held open.
void RedirectStandardStreams(const char* directory);

// Lets go of the pages of the program file that the start has brought in. Those that are needed
// come back from the page cache by themselves.
void ReleaseProgramPages();

}  // namespace muster::shim
