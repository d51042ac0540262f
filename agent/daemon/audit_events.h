// What the agent does, as events of its audit log, and by whose order.
#pragma once

#include <string>
#include <vector>

#include "agent/core/deed.h"
#include "common/audit/audit_log.h"
#include "common/base/mutex.h"
#include "common/member/certificate_renewer.h"

namespace muster {

// By whose order: where the coordinator is, and the serial number of the certificate that it showed
// on the newest connection (empty: it is on this machine).
struct OrderedBy {
  std::string source;
  std::string serial;
};

// Remembers which coordinator was reached last. Thread-safe.
class MetCoordinator {
 public:
  // What it showed: the names in its certificate, and that, PEM.
  void Set(const std::vector<std::string>& uris, const std::string& certificate);
  OrderedBy Get() const;

 private:
  mutable Mutex mutex_;
  OrderedBy by_ ABSL_GUARDED_BY(mutex_);
};

// launch, refuse-launch, stop, signal. `own_user`: the name of the agent's user.
AuditEvent EventOf(const Deed& deed, const OrderedBy& by, const std::string& own_user);

// renew: a new certificate is current, and with `look.new_authorities` new authorities are trusted.
AuditEvent RenewalEvent(const CertificateLook& look, const std::string& node);

// "0-3,6" for 0, 1, 2, 3, 6.
std::string RanksText(std::vector<uint32_t> ranks);

// Program and arguments as one line; where there are blanks and the like, in quotes.
std::string ArgvText(const std::vector<std::string>& argv);

}  // namespace muster
