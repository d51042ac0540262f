// Which processes have files open, device nodes above all: a bounded scan of /proc. Sees the
// processes of its own pid namespace, and the descriptors of other users' processes only as root.
// Needs the standard library only. Any thread; may take as long as its limit.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace muster {

// A process that has a file open.
struct FileHolder {
  // Index of the file among those that were asked for.
  size_t file = 0;
  pid_t pid = 0;
  uid_t uid = 0;
  // Its program and arguments, shortened, printable; its name where those cannot be read.
  std::string command;
  // MUSTER_JOB_ID of its environment; empty when there is none or it cannot be read.
  std::string job_id;
};

struct HolderLimits {
  std::chrono::milliseconds time{1000};
  // Holders that are told; a process that has several of the files open counts several times.
  size_t holders = 256;
};

struct HolderScan {
  std::vector<FileHolder> holders;
  // False when a limit was met: there may be more.
  bool complete = true;
};

// Looks at every process below `proc` but the caller's own. A file counts as open when a descriptor
// leads to a file of the same name and, where both can be looked at, to the same device or inode,
// so that a node in the /dev of a container is found, too.
HolderScan FindFileHolders(const std::vector<std::string>& files, const std::string& proc = "/proc",
                           HolderLimits limits = {});

// Name of a user in /etc/passwd, else "uid 1000". Asks no other user database: that could block.
std::string LocalUserName(uid_t uid);

}  // namespace muster
