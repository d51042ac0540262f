// Answers join requests: decides, makes the certificate, records it, and writes the audit log, in
// that order; nothing is handed out that is not on the disk. Lives on the join server's thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/audit/audit_log.h"
#include "common/base/clock.h"
#include "coordinator/trust/enrolment.h"
#include "coordinator/trust/join_handler.h"
#include "coordinator/trust/live_trust.h"
#include "coordinator/trust/trust_store.h"

namespace muster {

struct JoinPolicy {
  // Where members find coordinators, host:port.
  std::vector<std::string> coordinators;
};

class JoinService final : public JoinHandler {
 public:
  // All of them outlive it.
  JoinService(const LiveTrust& trust, TrustStore& store, AuditLog& audit, const Clock& clock,
              JoinPolicy policy)
      : trust_(trust), store_(store), audit_(audit), clock_(clock), policy_(std::move(policy)) {}

  std::string Answer(std::string_view request, const std::string& address,
                     std::string_view exporter) override;
  std::string AnswerGarbage(const std::string& why, const std::string& address) override;
  void Failed(const std::string& why, const std::string& address) override;

 private:
  struct Outcome {
    v1::JoinReply reply;
    // Its event is "join" where none is said.
    AuditEvent event;
  };
  Outcome Decide(std::string_view request, const std::string& address, std::string_view exporter,
                 WallTime now);
  Outcome DecideToken(const v1::JoinRequest& request, const std::string& address,
                      std::string_view exporter, WallTime now);
  Outcome DecideMember(const v1::JoinRequest& request, std::string_view exporter, WallTime now);
  Outcome Admit(const JoinAdmission& admission, const v1::JoinRequest& request, WallTime now);
  Outcome Accepted(const Trust& trust, const Certificate& certificate,
                   const std::string& detail) const;
  static Outcome RefusedOutcome(const JoinRefusal& refusal, std::string object);
  static Outcome FailedOutcome(const absl::Status& status, std::string object);
  std::string Finish(Outcome outcome, const std::string& address, WallTime now);

  const LiveTrust& trust_;
  TrustStore& store_;
  AuditLog& audit_;
  const Clock& clock_;
  const JoinPolicy policy_;
};

}  // namespace muster
