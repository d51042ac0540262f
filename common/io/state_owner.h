// Whose a state directory is. A package gives it to the user of a service, and what root makes or
// changes there by hand must not keep that user out, nor follow where that user points.
#pragma once

#include <absl/status/status.h>

#include <string>

namespace muster {

// As root, when the directory is there and another user's: the process goes on as that user, with
// the group of the directory and no others. For commands that make something in it.
absl::Status BecomeOwnerOf(const std::string& directory);

// FAILED_PRECONDITION where BecomeOwnerOf would change the user: for daemons.
absl::Status CheckOwnerOf(const std::string& directory);

}  // namespace muster
