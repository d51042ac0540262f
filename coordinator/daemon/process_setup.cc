#include "coordinator/daemon/process_setup.h"

#include <signal.h>
#include <sys/resource.h>

#include "common/rpc/process.h"

namespace muster {

void PrepareProcess() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    // Where that is not allowed, the lower limit has to do.
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  PrepareProcessForGrpc();
}

}  // namespace muster
