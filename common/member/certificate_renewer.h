// One look at the certificate of a member (this node, this user), and what is to be done about it:
// renews it at the coordinator over mutual TLS, comes back with it when it has ended, tells the
// coordinator which authorities are trusted here. Blocks; one thread at a time. Agents: see
// agent/daemon/certificate_keeper.h for when; users: coordinator/cli/own_certificate.h.
#pragma once

#include <absl/status/status.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/member/member_client.h"
#include "common/rpc/channel.h"
#include "common/trust/credentials.h"
#include "common/trust/renewal.h"

namespace muster {

struct CertificateLook {
  // Why what was due could not be done.
  absl::Status status;
  // The certificate after the look, and what it is.
  CertificateState state = CertificateState::kGood;
  // When it was made, by the coordinator's clock.
  WallTime made_at;
  WallTime renew_at;
  WallTime not_after;
  std::string serial;
  Duration check_interval{};
  // A new certificate is current since this look. `former_reconnect_at`: until when connections
  // made with the one before should be replaced.
  bool renewed = false;
  WallTime former_reconnect_at;
  // Authorities that are trusted since this look and were not before: digests of their keys,
  // hexadecimal.
  std::vector<std::string> new_authorities;
  // The member can do nothing more about it; the status says what somebody has to do.
  bool hopeless = false;
};

class CertificateRenewer {
 public:
  // `target`: HOST:PORT of the coordinator; empty: as the credentials say. `dialer` makes channels
  // with the credentials of the moment. `chance`: see RenewAt. The clock outlives it.
  CertificateRenewer(CredentialsDirectory directory, std::string target, Dialer dialer,
                     const Clock& clock)
      : directory_(std::move(directory)),
        target_(std::move(target)),
        dialer_(std::move(dialer)),
        clock_(clock) {}

  CertificateLook Look(double chance);
  // Ends a call that waits. Any thread.
  void Cancel() { client_.Cancel(); }

 private:
  // Each installs a new certificate, or says why not.
  absl::Status Renew(const Credentials& before);
  absl::Status ComeBack(const Credentials& before);
  absl::StatusOr<bool> ShouldRenewNow(const Credentials& current);
  // Why gRPC was not reached, as the join port tells: PERMISSION_DENIED when the member was shut
  // out; OK when the certificate has ended by the coordinator's clock; else `unreachable`.
  absl::Status WhyShutOut(const Credentials& current, const absl::Status& unreachable);
  // Of the coordinators in turn; empty: none is known.
  std::string NextAddress(const Credentials& credentials);

  const CredentialsDirectory directory_;
  const std::string target_;
  const Dialer dialer_;
  const Clock& clock_;
  MemberClient client_;
  size_t next_coordinator_ = 0;
};

}  // namespace muster
