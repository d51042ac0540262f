// Keeps a whole Job from a stream that sends it once and then only what changed. Not thread-safe.
#pragma once

#include "muster/v1/job.pb.h"

namespace muster {

class JobView {
 public:
  // Folds one response of WatchJob. The first one after `Restart` replaces everything.
  void Apply(const v1::Job& update);
  // A new stream begins: its first response is a whole job again.
  void Restart() { fresh_ = true; }
  // False until the first response.
  bool known() const { return known_; }
  const v1::Job& job() const { return job_; }

 private:
  v1::Job job_;
  bool fresh_ = true;
  bool known_ = false;
};

}  // namespace muster
