// Stream sockets of a relay by address: `unix:/path` or `127.0.0.1:port`. All non-blocking.
#pragma once

#include <string>

#include "common/io/unique_fd.h"

namespace muster::testing {

// A failure of the test when it cannot. `address` becomes what was really bound.
UniqueFd ListenAt(std::string& address);
// Invalid when the server is not there. The connection may still be under way.
UniqueFd ConnectTo(const std::string& address);
// The end of this connection is a reset where the protocol knows one.
void ResetAtClose(int fd);

}  // namespace muster::testing
