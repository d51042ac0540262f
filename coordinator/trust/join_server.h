// Serves strangers who want to join. One thread of its own serves all connections without waiting
// for any of them, within the limits of join_limits.h; an idle connection costs a descriptor and
// nothing else. Connections come from a listening socket or are handed over. Start, port and the
// destructor are for the owner's thread.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/crypto/tls_session.h"
#include "common/io/unique_fd.h"
#include "coordinator/trust/join_connection.h"
#include "coordinator/trust/join_handler.h"
#include "coordinator/trust/join_limits.h"
#include "coordinator/trust/live_trust.h"

namespace muster {

// A listening TCP socket. `host`: a numeric address or a name of this machine; empty: all
// addresses. Port 0: any.
absl::StatusOr<UniqueFd> ListenTcp(const std::string& host, uint16_t port);

class JoinServer {
 public:
  // `listener` is a listening stream socket; an empty one: connections are only handed over.
  // `trust` and `handler` outlive the server; a connection is served with the certificate of the
  // moment.
  static absl::StatusOr<std::unique_ptr<JoinServer>> Start(UniqueFd listener,
                                                           const LiveTrust& trust,
                                                           JoinHandler& handler,
                                                           const JoinLimits& limits = {});
  // Closes all connections as they are and ends the thread.
  ~JoinServer();
  JoinServer(const JoinServer&) = delete;
  JoinServer& operator=(const JoinServer&) = delete;

  // Takes a connection that somebody else has accepted; it does not block. `address`: numeric, of
  // the peer. Any thread.
  void Adopt(UniqueFd connection, std::string address);

  // Of the listening socket; 0 without one.
  uint16_t port() const { return port_; }
  // Connections that were accepted since the start.
  uint64_t accepted() const { return accepted_; }

 private:
  JoinServer(UniqueFd listener, UniqueFd wake, const LiveTrust& trust, uint64_t version,
             TlsContext context, JoinHandler& handler, const JoinLimits& limits);

  void Run();
  void RefreshContext();
  void Wake();
  void TakeAdopted();
  void AcceptAll();
  void OutOfDescriptors(int error_number);
  void Admit(UniqueFd fd, const std::string& address);
  void StepReady(const std::vector<short>& ready);
  bool MayStart(const JoinConnection& connection) const;
  void RemoveOver();
  int PollTimeout() const;

  const UniqueFd listener_;
  const UniqueFd wake_;
  const LiveTrust& trust_;
  JoinHandler& handler_;
  const JoinLimits limits_;
  uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> accepted_ = 0;

  Mutex mutex_;
  // Handed over and not looked at yet.
  std::vector<std::pair<UniqueFd, std::string>> adopted_ ABSL_GUARDED_BY(mutex_);

  // Of the thread. The version of the trust that the context was made of.
  uint64_t version_;
  TlsContext context_;
  // Oldest first.
  std::list<JoinConnection> connections_;
  JoinRate rate_;
  // Kept to hang up on a peer when the process has no descriptor for it.
  UniqueFd reserve_;
  // Until then no connection is accepted: not even that was possible.
  TimePoint paused_until_;
  // Whether it was told that connections are refused.
  bool told_ = false;

  std::thread thread_;
};

}  // namespace muster
