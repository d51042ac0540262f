// Replaces the CA of a cluster by a new one while members go on, in three steps on the files of the
// trust directory:
//
//   steady                              ca.key: A             ca.crt: A
//   BeginRotation -> trust both         ca.key: A, next: B    ca.crt: A B    A signs
//   IssueFromNew  -> issue new          ca.key: B             ca.crt: A B    B signs
//   DropFormer    -> steady             ca.key: B             ca.crt: B
//
// Each step takes effect with one rename, and the files alone say how far it has come, so that the
// coordinator may be killed anywhere. The key of A is gone with the second step. In between the
// coordinator shows members and token holders certificates of both. The last two may only be taken
// when AwaitedMembers is empty. One process at a time; blocks on the disk.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/trust/trust_directory.h"
#include "coordinator/trust/trust_store.h"

namespace muster {

// FAILED_PRECONDITION: a change is under way.
absl::Status BeginRotation(const std::string& directory, WallTime now);
absl::Status IssueFromNew(const std::string& directory, WallTime now);
absl::Status DropFormer(const std::string& directory, WallTime now);

// Members whose certificates are good and who would be shut out by the next step: while both are
// trusted those that have not told that they trust the next CA, and later those whose newest
// certificate is not of the CA that signs.
absl::StatusOr<std::vector<Member>> AwaitedMembers(const Trust& trust, TrustStore& store,
                                                   WallTime now);

// What Member::authorities holds: digests of the keys of these CAs, sorted, one behind the other.
std::string AuthoritiesOf(const std::vector<Certificate>& bundle);
std::string AuthoritiesOf(std::vector<std::string> digests);
bool HasAuthority(std::string_view authorities, std::string_view digest);

}  // namespace muster
