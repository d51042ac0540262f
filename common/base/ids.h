// Strong identifiers. A bare string or integer never crosses a core interface, so that a job cannot
// be taken for a node. Value types, usable from any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <utility>

namespace muster {

// A string with a meaning. `Tag` keeps meanings apart.
template <typename Tag>
class StrongString {
 public:
  StrongString() = default;
  explicit StrongString(std::string value) : value_(std::move(value)) {}
  const std::string& value() const { return value_; }
  bool empty() const { return value_.empty(); }
  friend auto operator<=>(const StrongString&, const StrongString&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const StrongString& s) {
    return H::combine(std::move(h), s.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, const StrongString& s) {
    return out << s.value_;
  }

 private:
  std::string value_;
};

// A job, `[a-z0-9-]{1,63}`, given by the coordinator.
using JobId = StrongString<struct JobIdTag>;
// A node, given by its administrator (or by the hostfile in standalone use).
using NodeId = StrongString<struct NodeIdTag>;

// One gang start of one job.
struct AttemptId {
  JobId job;
  uint32_t attempt = 0;
  friend auto operator<=>(const AttemptId&, const AttemptId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const AttemptId& a) {
    return H::combine(std::move(h), a.job, a.attempt);
  }
};

// Global rank of a process in its job, from 0.
struct Rank {
  uint32_t value = 0;
  friend auto operator<=>(const Rank&, const Rank&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Rank& r) {
    return H::combine(std::move(h), r.value);
  }
};

}  // namespace muster
