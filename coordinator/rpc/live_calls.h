// The streams of peers with a certificate, so that they can be cut when it is not good any more.
// Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"

namespace muster {

// A stream that can be ended from outside.
class LiveCall {
 public:
  virtual ~LiveCall() = default;
  // Ends it, whatever it is doing. Any thread.
  virtual void Cut() = 0;
};

class LiveCalls {
 public:
  // A stream of the peer with this certificate (its serial number, and PEM) begins; cut at once if
  // the certificate's were.
  void Add(const std::string& serial, const std::string& certificate,
           const std::shared_ptr<LiveCall>& call);
  // Cuts all streams of these certificates, for good, and returns how many there were.
  size_t CutAll(const std::vector<std::string>& serials);
  // Cuts the streams of certificates (PEM) that are not good. `is_good` takes its time: it is asked
  // about every certificate with a stream, on the calling thread.
  size_t CutUnless(const std::function<bool(const std::string& certificate)>& is_good);

 private:
  struct Calls {
    std::string certificate;
    std::vector<std::weak_ptr<LiveCall>> calls;
  };
  using Cutting = std::vector<std::shared_ptr<LiveCall>>;

  void Take(const std::string& serial, Cutting& cut) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  // By serial number.
  std::map<std::string, Calls> calls_ ABSL_GUARDED_BY(mutex_);
  // Nothing of these is let in again.
  std::set<std::string> cut_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
