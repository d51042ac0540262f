// Makes a process another user's, for good.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "muster/internal/shim.pb.h"

namespace muster::shim {

// A user in the form that the kernel wants.
struct UserIds {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
};

UserIds UserIdsOf(const internal::ShimRunAs& user);

// Gives up what this process is and becomes `user`: groups, group, user, in this order, then looks
// whether that is so and cannot be undone, gives up inheritable capabilities, and leaves the
// session's keyring. Null when it is done, else the name of the step that failed, with errno. The
// parent death signal is gone afterwards. Makes system calls only.
const char* BecomeUser(const UserIds& user);

}  // namespace muster::shim
