// Output of a local run that only its nodes have: what they had written when the coordinator, or
// their agent, was killed. A rank's file is the same on its node and in the store, byte for byte,
// so that the stored file is simply continued. Blocks; any thread.
#pragma once

#include <absl/status/status.h>

#include <string>

namespace muster {

// Continues every stored file of the run in `folder` with what its node has more of, as far as that
// goes. Does nothing when there is nothing to add, or when somebody uses the folder: its
// coordinator lives, or a reader is there, who has done it. After an error the stored files are as
// good as before.
absl::Status RecoverLocalOutput(const std::string& folder);

}  // namespace muster
