// What the join server does with what it receives. Called on the server's thread, one at a time.
#pragma once

#include <string>
#include <string_view>

namespace muster {

class JoinHandler {
 public:
  virtual ~JoinHandler() = default;
  // The reply to a request, both without their size. `address`: numeric, of the peer. `exporter`:
  // of the connection.
  virtual std::string Answer(std::string_view request, const std::string& address,
                             std::string_view exporter) = 0;
  // The reply to what is no request: `why` tells what is wrong with it.
  virtual std::string AnswerGarbage(const std::string& why, const std::string& address) = 0;
  // A connection ended without a request; nobody is there to be answered.
  virtual void Failed(const std::string& why, const std::string& address) = 0;
};

}  // namespace muster
