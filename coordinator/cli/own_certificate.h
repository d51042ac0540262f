// Keeps the certificate of this user good. Commands that call a coordinator over the network have
// it looked after now and then, by a process of its own that they neither wait for nor depend on:
// `coordinator renew-certificate`, which is in no list of commands. It renews a certificate that is
// past half of its life, learns of a new authority of the cluster, and tells the coordinator which
// ones are trusted here.
//
// Beside the certificate is the file `renewal`: its time is when somebody looked last, its text
// what went wrong then. Any number of commands at once; the process that has it locked does the
// work.
#pragma once

#include <string>

#include "common/base/clock.h"
#include "common/trust/credentials.h"
#include "coordinator/cli/command.h"

namespace muster {

inline constexpr char kRenewCertificate[] = "renew-certificate";

// Has the certificate of `directory`, which is about to be used for calls to `target`, looked after
// when nobody did for a while. Never blocks and cannot fail. In the last fifth of a life that
// cannot be made longer, tells the user once a day, on stderr.
void HaveCertificateLookedAfter(const std::string& directory, const Credentials& credentials,
                                const std::string& target, WallTime now);

// That process. Arguments: the directory and HOST:PORT of the coordinator.
int RunRenewCertificate(Arguments arguments, Reporter& reporter);

}  // namespace muster
