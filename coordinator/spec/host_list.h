// Collects hosts from lines of a hostfile or items of a job file and finds what only the whole list
// shows: hosts named twice, bare names that count ranks, too many slots. Pure.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/diagnostics.h"
#include "coordinator/spec/host_name.h"
#include "muster/v1/job.pb.h"

namespace muster {

// One line, its parts already read.
struct HostLine {
  // Host token, ranges and `user@` included.
  std::string_view host;
  int line = 0;
  // Unset: the line is bare.
  std::optional<uint32_t> slots;
  std::optional<uint32_t> max_slots;
  // Ascending, without repeats.
  std::vector<uint32_t> modules;
  std::string address;
};

class HostList {
 public:
  // `file` and `diagnostics` must outlive the list.
  HostList(std::string_view file, Diagnostics& diagnostics)
      : file_(file), diagnostics_(diagnostics) {}

  // Adds the hosts of one line, or reports what is wrong with it.
  void Add(const HostLine& line);
  // The hosts in order. Reports users that were ignored and limits. Call once.
  std::vector<v1::HostEntry> Finish();

 private:
  struct Seen {
    size_t index = 0;
    int line = 0;
    bool bare = false;
    bool from_range = false;
    uint32_t times = 1;
  };
  struct IgnoredUser {
    int line = 0;
    size_t times = 0;
  };

  void AddHost(const HostLine& line, const std::string& host, const std::string& source,
               bool from_range);
  // The same host once more: counts a rank for bare names, else an error.
  void Repeat(Seen& first, const HostLine& line, const std::string& host, bool from_range);
  void CheckCounts(const HostLine& line);

  std::string_view file_;
  Diagnostics& diagnostics_;
  std::vector<v1::HostEntry> hosts_;
  absl::flat_hash_map<std::string, Seen> seen_;
  std::map<std::string, IgnoredUser> users_;
  bool counts_ranks_ = false;
  // Hosts that ranges may still stand for.
  size_t budget_ = kMaxHosts;
  bool full_ = false;
};

// Reads `0,2,4-7` into ascending numbers below `limit`. Returns what is wrong, empty when nothing
// is.
std::string ParseSlotList(std::string_view text, uint32_t limit, std::vector<uint32_t>& slots);

}  // namespace muster
