// The files that make a cluster, in the coordinator's `<state>/trust/`, mode 0700:
//
//   cluster          the cluster id
//   ca.key ca.crt    the CA; ca.crt may hold several, the one that fits ca.key signs
//   coordinator.key coordinator.crt
//   admin.key admin.crt   for the command line of who made the cluster
//   hosts            names and addresses in the coordinator's certificate, one a line
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
inline constexpr std::chrono::hours kCoordinatorLife{24 * 365};
inline constexpr std::chrono::hours kAdminLife{24 * 365};

struct Trust {
  std::string cluster_id;
  // The CA that signs first.
  std::vector<Certificate> ca_bundle;
  PrivateKey ca_key;
  Certificate coordinator;
  PrivateKey coordinator_key;

  const Certificate& ca() const { return ca_bundle.front(); }
  // What the coordinator presents: its certificate, then the CAs, for clients that know a pin only.
  std::vector<Certificate> ServerChain() const;
};

struct TrustSetUp {
  // Under which the coordinator will be reached; may be empty.
  std::vector<std::string> hosts;
  std::string admin_name = "admin";
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
// Renews the coordinator's certificate when it needs that, also when it is over. Returns whether it
// was; one that cannot be read is left to LoadTrust.
absl::StatusOr<bool> RenewCoordinatorWhenDue(const std::string& directory, WallTime now);
// Gives the coordinator a new certificate for its key, with the names of the file `hosts`. Works
// also when the old one is over.
absl::Status RenewCoordinatorCertificate(const std::string& directory, WallTime now);

// The record of a certificate.
IssuedCertificate RecordOf(const Certificate& certificate, const Identity& identity, WallTime now);

}  // namespace muster
