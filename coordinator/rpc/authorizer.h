// Who may call what: one table of method and role, which denies whatever it does not name. Pure;
// usable from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace muster {

// What a peer is. The transport finds out; see peers.h.
enum class Role {
  // Not known. May do nothing.
  kNobody,
  // The agent of a node.
  kAgent,
  // Submits jobs.
  kSubmitter,
  // Operates the coordinator. May do everything that agents and submitters may.
  kAdmin,
};

// One row of the table. A method that several roles may call has several.
struct MethodRule {
  // `/package.Service/Method`.
  std::string_view method;
  // A role that it takes, besides kAdmin.
  Role role;
};

// The whole table, for tests and for documentation.
std::span<const MethodRule> MethodRules();

// True when a peer of this role may call the method.
bool IsAllowed(std::string_view method, Role role);

}  // namespace muster
