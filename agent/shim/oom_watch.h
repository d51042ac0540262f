// Evidence that the kernel's out-of-memory killer ended a process: its line in the kernel log. Only
// where that may be read (root, or kernel.dmesg_restrict=0 and a readable /dev/kmsg) and only for
// processes of the first pid namespace; elsewhere it knows nothing. Single-threaded; never blocks.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <string_view>

#include "common/io/unique_fd.h"

namespace muster::shim {

class OomWatch {
 public:
  // Begins to watch. What the kernel has said before does not count.
  void Open(const char* path = "/dev/kmsg");

  // True when the kernel has said that it killed `pid` for want of memory.
  bool WasKilled(pid_t pid);

 private:
  void ReadNew();

  UniqueFd log_;
  std::set<pid_t> killed_;
};

// The pid in a kernel line such as "... Out of memory: Killed process 17 (python3) ..."; 0: no such
// line.
pid_t ParseOomKill(std::string_view line);

}  // namespace muster::shim
