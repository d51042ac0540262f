// Who may run ranks on this node, and as what. The seam between the agent's core and the node's
// user database and allow-list; see agent/node/system_user_gate.h for the real one.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace muster {

// What ranks run as.
struct RunAs {
  // True: as the agent itself, with its environment; everything else is empty then.
  bool self = true;
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  // Every group of the user, the primary one included.
  std::vector<gid_t> groups;
  // Absolute; "/" when the user has none.
  std::string home;
  std::string shell;
};

class UserGate {
 public:
  // PERMISSION_DENIED: the node does not run jobs of this user; NOT_FOUND: there is no such user
  // here; DEADLINE_EXCEEDED: the user database does not answer; others: it cannot be asked. The
  // message is a whole sentence for the submitter, without a final full stop.
  using Done = std::function<void(absl::StatusOr<RunAs>)>;

  virtual ~UserGate() = default;
  // `user` as the coordinator names it; empty: the agent's own. `done` runs later, exactly once
  // unless the gate is destroyed before, on the loop thread.
  virtual void Admit(const std::string& user, Done done) = 0;
};

}  // namespace muster
