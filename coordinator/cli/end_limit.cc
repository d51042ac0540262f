#include "coordinator/cli/end_limit.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace muster {
namespace {

std::atomic<int> status_at_limit = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler reads it");

}  // namespace

void LimitEnd(int status, std::chrono::seconds limit) {
  status_at_limit = status;
  ::signal(SIGALRM, [](int) { ::_exit(status_at_limit); });
  ::alarm(static_cast<unsigned>(limit.count()));
}

}  // namespace muster
