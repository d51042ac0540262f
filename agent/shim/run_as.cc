#include "agent/shim/run_as.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace muster::shim {

UserIds UserIdsOf(const internal::ShimRunAs& user) {
  UserIds ids = {.uid = user.uid(), .gid = user.gid(), .groups = {}};
  ids.groups.assign(user.groups().begin(), user.groups().end());
  return ids;
}

const char* BecomeUser(const UserIds& user) {
  if (::setgroups(user.groups.size(), user.groups.data()) != 0) return "setgroups";
  if (::setresgid(user.gid, user.gid, user.gid) != 0) return "setresgid";
  if (::setresuid(user.uid, user.uid, user.uid) != 0) return "setresuid";
  uid_t uids[3];
  gid_t gids[3];
  if (::getresuid(&uids[0], &uids[1], &uids[2]) != 0) return "getresuid";
  if (::getresgid(&gids[0], &gids[1], &gids[2]) != 0) return "getresgid";
  errno = EPERM;
  for (const uid_t uid : uids) {
    if (uid != user.uid) return "setresuid";
  }
  for (const gid_t gid : gids) {
    if (gid != user.gid) return "setresgid";
  }
  // A kernel or sandbox that lets it become root again has not dropped anything.
  if (user.uid != 0 && ::setuid(0) == 0) {
    errno = EPERM;
    return "setuid";
  }
  // What a service manager made inheritable outlives the change of the user, and would come to life
  // in a program whose file has it.
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const __user_cap_data_struct none[2] = {};
  if (user.uid != 0 && ::syscall(SYS_capset, &header, none) != 0) return "capset";
  // The keys of the shim's session are not the user's. Refused in many containers, where there are
  // none either.
  (void)::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr);
  return nullptr;
}

}  // namespace muster::shim
