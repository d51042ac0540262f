// What a test and the program that it kills at a write share: one page of memory, in a file that
// MUSTER_TEST_KILL_PAGE names in the program's environment.
#pragma once

#include <atomic>
#include <cstdint>

namespace muster::testing {

enum class KillMoment : uint64_t {
  // Nothing of the write is done.
  kBefore,
  // Half of its bytes are written; before it, for what has no halves.
  kHalfway,
  // It is done, and nobody was told.
  kAfter,
};

// All zero at first.
struct KillPage {
  // Writes that the process has begun.
  std::atomic<uint64_t> writes;
  // It dies at this one; 0: it lives.
  std::atomic<uint64_t> last_write;
  std::atomic<KillMoment> moment;
};

inline constexpr char kKillPageVariable[] = "MUSTER_TEST_KILL_PAGE";

}  // namespace muster::testing
