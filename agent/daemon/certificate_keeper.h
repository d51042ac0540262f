// Keeps the certificate of this node good for as long as the agent runs: decides when to look at it
// (certificate_renewer.h does the looking, on a thread of its own), repeats what failed, and says
// in the log how much of its life is left. Everything else lives on the loop thread. Nothing that
// runs ends because of it; only connections are made anew in time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>

#include "agent/session/backoff.h"
#include "common/base/executor.h"
#include "common/io/worker_thread.h"
#include "common/member/certificate_renewer.h"

namespace muster {

class CertificateKeeper {
 public:
  // `loop` outlives it. `reconnect` is called when connections should be replaced by ones with the
  // newest certificate, `renewed` when there is a new one.
  CertificateKeeper(Executor& loop, const CredentialsDirectory& directory,
                    const std::string& target, uint64_t seed, std::function<void()> reconnect,
                    std::function<void(const CertificateLook&)> renewed);
  ~CertificateKeeper();
  CertificateKeeper(const CertificateKeeper&) = delete;
  CertificateKeeper& operator=(const CertificateKeeper&) = delete;

  void Start();
  // The coordinator answers: what waits for that need not wait longer.
  void OnSession();
  // The connection is gone; if because this node was shut out, the log will say so.
  void OnSessionLost();

 private:
  void LookAfter(Duration wait);
  void Look();
  void OnLooked(const CertificateLook& look);
  void Tell(const CertificateLook& look, WallTime now);
  void ReconnectAfter(Duration wait);

  Executor& loop_;
  const std::function<void()> reconnect_;
  const std::function<void(const CertificateLook&)> renewed_;
  CertificateRenewer renewer_;
  std::mt19937_64 random_;
  Backoff backoff_;
  // Of the current certificate.
  double chance_;
  bool looking_ = false;
  // The last look failed, or has not been yet.
  bool waiting_ = true;
  bool told_early_ = false;
  Executor::TimerId look_timer_ = 0;
  Executor::TimerId reconnect_timer_ = 0;
  // Gone with this object: what the worker posts to the loop later is dropped.
  std::shared_ptr<CertificateKeeper*> self_ = std::make_shared<CertificateKeeper*>(this);
  // Last: its task uses the renewer.
  std::unique_ptr<WorkerThread> worker_;
};

}  // namespace muster
