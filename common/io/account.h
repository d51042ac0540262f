// Names of users of this machine.
#pragma once

#include <sys/types.h>

#include <string>

namespace muster {

// Name of a user; its number in decimal when it has none. Asks the user database, which may block.
std::string AccountName(uid_t uid);

}  // namespace muster
