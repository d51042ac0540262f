// The files that make a cluster, in the coordinator's `<state>/trust/`, mode 0700:
//
//   cluster          the cluster id
//   ca.key ca.crt    the CA; ca.crt may hold several, the one that fits ca.key signs
//   coordinator.key coordinator.crt
//   admin.key admin.crt   for the command line of who made the cluster
//   hosts            names and addresses in the coordinator's certificate, one a line
//   settings         `certificate-life-seconds N`, see TrustSetUp
//   ca-next.key coordinator-former.crt   while the CA is changed, see ca_rotation.h
//   trust.db         see trust_store.h
//
// Keys have mode 0600. A backup of the directory is the cluster; who reads it owns the cluster.
// Blocks on the disk. One process at a time may change it.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/crypto/certificate.h"
#include "common/crypto/private_key.h"
#include "coordinator/trust/trust_records.h"

namespace muster {

inline constexpr std::chrono::hours kCaLife{24 * 365 * 10};
// Of nodes and of the coordinator, unless TrustSetUp says otherwise. Both renew theirs by
// themselves.
inline constexpr std::chrono::hours kCertificateLife{24 * 14};
// Short lives are for trying out what happens.
inline constexpr std::chrono::seconds kMinCertificateLife{10};
inline constexpr std::chrono::hours kMaxCertificateLife{24 * 365};
inline constexpr std::chrono::hours kAdminLife{24 * 365};
// Of people who joined. Their commands renew them.
inline constexpr std::chrono::hours kUserLife{24 * 30};

// How far a change of the CA has come.
enum class RotationPhase {
  // None is under way.
  kSteady,
  // Members learn to trust the new one; the old one signs.
  kTrustBoth,
  // The new one signs; members get certificates of it.
  kIssueNew,
};

struct Trust {
  std::string cluster_id;
  // The CA that signs first.
  std::vector<Certificate> ca_bundle;
  PrivateKey ca_key;
  Certificate coordinator;
  PrivateKey coordinator_key;
  // Its certificates of other CAs in the bundle, for the same key; while the CA is changed.
  std::vector<Certificate> coordinator_former;
  std::chrono::seconds certificate_life = kCertificateLife;
  RotationPhase phase = RotationPhase::kSteady;

  const Certificate& ca() const { return ca_bundle.front(); }
  // How long a new certificate of such a member is good.
  std::chrono::seconds LifeOf(IdentityKind kind) const {
    return kind == IdentityKind::kAgent ? certificate_life : std::chrono::seconds(kUserLife);
  }
  // What the coordinator presents: its certificates, then the CAs, for clients that know a pin
  // only.
  std::vector<Certificate> ServerChain() const;
};

struct TrustSetUp {
  // Under which the coordinator will be reached; may be empty.
  std::vector<std::string> hosts;
  std::string admin_name = "admin";
  // How long certificates of nodes and of the coordinator are good.
  std::chrono::seconds certificate_life = kCertificateLife;
};

std::string TrustDatabasePath(const std::string& directory);
std::string CoordinatorKeyPath(const std::string& directory);
std::string CoordinatorCertificatePath(const std::string& directory);
std::string CaPath(const std::string& directory);
// Those of TrustSetUp; empty when they cannot be read.
std::vector<std::string> HostsOf(const std::string& directory);
std::string AdminKeyPath(const std::string& directory);
std::string AdminCertificatePath(const std::string& directory);

// Makes a cluster with its CA, the coordinator's and the admin's certificates, all or nothing.
// ALREADY_EXISTS: there is something at `directory`; it is left as it is.
absl::StatusOr<Trust> InitTrust(const std::string& directory, const TrustSetUp& set_up,
                                WallTime now);

// NOT_FOUND: there is no cluster. FAILED_PRECONDITION: it cannot be used as it is; the text says
// which file and why: others may read it, certificate and key do not fit, it is over.
absl::StatusOr<Trust> LoadTrust(const std::string& directory, WallTime now);

// Whether less than a third of the certificate's life is left.
bool NeedsRenewal(const Certificate& certificate, WallTime now);
// Renews the coordinator's certificate when it needs that, also when it is over, or when it is not
// of the CA that signs. Returns whether it was; one that cannot be read is left to LoadTrust.
absl::StatusOr<bool> RenewCoordinatorWhenDue(const std::string& directory, WallTime now);
// Gives the coordinator a new certificate for its key, with the names of the file `hosts`. Works
// also when the old one is over.
absl::Status RenewCoordinatorCertificate(const std::string& directory, WallTime now);

class TrustStore;
// The same for the admin's, unless it was revoked.
absl::StatusOr<bool> RenewAdminWhenDue(const std::string& directory, const Trust& trust,
                                       TrustStore& store, WallTime now);

// The record of a certificate.
IssuedCertificate RecordOf(const Certificate& certificate, const Identity& identity, WallTime now);

}  // namespace muster
