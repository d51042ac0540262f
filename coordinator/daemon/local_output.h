// Output of a local run that only its nodes have: what they had written when the coordinator, or
// their agent, was killed. A rank's file is the same on its node and in the store, byte for byte,
// so that the stored file is simply continued. Blocks; any thread.
#pragma once

#include <absl/status/status.h>

#include <string>

namespace muster {

// Continues every stored file of the run in `folder` with what its node has more of, as far as that
// goes. The caller holds the folder's lock, shared with other readers at least, so that no
// coordinator lives; of several readers one does it, and the others wait for that. After an error
// the stored files are as good as before.
absl::Status RecoverLocalOutput(const std::string& folder);

}  // namespace muster
