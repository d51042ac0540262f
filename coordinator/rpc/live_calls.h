// The streams of peers with a certificate, so that they can be cut when it is revoked. Thread-safe.
#pragma once

#include <cstddef>
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
  // A stream of the peer with this certificate begins; cut at once if the certificate's were.
  void Add(const std::string& serial, const std::shared_ptr<LiveCall>& call);
  // Cuts all streams of these certificates and returns how many there were.
  size_t CutAll(const std::vector<std::string>& serials);

 private:
  Mutex mutex_;
  std::map<std::string, std::vector<std::weak_ptr<LiveCall>>> calls_ ABSL_GUARDED_BY(mutex_);
  // Nothing of these is let in again.
  std::set<std::string> cut_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster
