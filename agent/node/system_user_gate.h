// The gate of a real node: looks users up in the node's user database (NSS: /etc/passwd, LDAP, ...)
// and in its allow-list. The list is read again for every job. Lives on the loop thread; lookups,
// which may hang, run on threads of their own (common/io/user_lookups.h).
#pragma once

#include <absl/status/status.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/user_gate.h"
#include "agent/node/allow_list.h"
#include "agent/node/coordinator_socket.h"
#include "common/base/executor.h"
#include "common/io/user_lookups.h"

namespace muster {

struct UserGateOptions {
  // Name of the user that the agent runs as (common/io/account.h), and whether that is root.
  std::string own_name;
  bool is_root = false;
  // Unix socket of the coordinator; empty when it is reached over the network. While the socket
  // belongs to this process's user no allow-list counts: the coordinator is root already.
  std::string coordinator_socket;
  PlaceTrust place_trust = PlaceTrust::kWholePath;
  // File of the allow-list; one that does not exist allows nobody.
  std::string allow_file;
  // Users allowed besides, by name.
  std::vector<std::string> allowed;
  // How long the user database may take.
  std::chrono::milliseconds lookup_limit{5000};
};

class SystemUserGate final : public UserGate {
 public:
  // `executor` outlives the gate.
  SystemUserGate(Executor& executor, UserGateOptions options);
  SystemUserGate(const SystemUserGate&) = delete;
  SystemUserGate& operator=(const SystemUserGate&) = delete;

  void Admit(const std::string& user, Done done) override;

 private:
  // `list` that must allow the user; nothing: none.
  void LookUp(const std::string& user, std::optional<AllowList> list, Done done);

  Executor& executor_;
  const UserGateOptions options_;
  UserLookups lookups_;
  // Posted tasks look here whether the gate still lives.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

// Reads the allow-list of `path`. A file that does not exist is an empty list. PERMISSION_DENIED
// when others than root and this process's user can write it.
absl::StatusOr<AllowList> ReadAllowList(const std::string& path);

}  // namespace muster
