// The cgroup v2 directories of the ranks, one child per rank below a directory that the agent
// gives. With them the kernel knows exactly what a rank has started and kills it in one step. No
// controller is enabled. Everything here is optional: without a usable directory the shim walks the
// process tree instead. Single-threaded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/io/unique_fd.h"

namespace muster::shim {

class RankCgroup {
 public:
  // Makes `parent`/rank-N. False when that is impossible; then all else does nothing.
  bool Create(const std::string& parent, uint32_t rank);

  // Descriptor of the directory for clone3; -1: none.
  int fd() const { return fd_.get(); }
  bool exists() const { return fd_.valid(); }

  // Kills every process in it. False: the kernel has no cgroup.kill (before 5.14), or there is no
  // cgroup.
  bool Kill();
  // True when a process is in it.
  bool IsPopulated() const;
  // The processes in it, without those of cgroups that the rank made below it.
  std::vector<pid_t> Processes() const;
  // How often the kernel's out-of-memory killer struck in it; 0 too where memory is not accounted.
  uint64_t OomKills() const;
  // Removes the directory, and those that the rank made in it; fails silently while it is
  // populated.
  void Remove();

 private:
  std::string ReadFileHere(const char* name) const;

  std::string path_;
  UniqueFd fd_;
};

}  // namespace muster::shim
