// What simulated ranks do. A job's program is `sim NAME`; the book says what each rank of NAME
// does.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace muster::testing {

struct RankScript {
  // How long it runs by itself; below zero: for ever.
  Duration run = std::chrono::seconds(1);
  int exit_code = 0;
  // When not 0, it ends by this signal instead.
  int signal = 0;
  // SIGTERM does nothing to it.
  bool deaf = false;
  // Nor does SIGKILL, for up to a minute.
  bool unkillable = false;
  // Its program cannot be executed.
  bool exec_fails = false;
  // The shim cannot prepare it.
  bool prepare_fails = false;
  // A burst of output this often, and its size.
  Duration output_every = std::chrono::milliseconds(200);
  uint64_t output_bytes = 100;
};

class ScriptBook {
 public:
  void Add(const std::string& name, std::vector<RankScript> ranks) {
    scripts_[name] = std::move(ranks);
  }
  // The last script of a list serves all further ranks.
  RankScript Find(const std::string& name, uint32_t rank) const {
    const auto found = scripts_.find(name);
    if (found == scripts_.end() || found->second.empty()) return {};
    const std::vector<RankScript>& ranks = found->second;
    return rank < ranks.size() ? ranks[rank] : ranks.back();
  }

 private:
  std::map<std::string, std::vector<RankScript>> scripts_;
};

}  // namespace muster::testing
