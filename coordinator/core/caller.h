// Who calls. Authentication is the transport's work.
#pragma once

#include <string>

namespace muster {

struct Caller {
  // Name of the user; empty when it is not known.
  std::string user;
  // Sees and ends everybody's jobs, and submits jobs that run as others.
  bool admin = false;
};

}  // namespace muster
