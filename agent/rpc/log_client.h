// The UploadLogs stream to the coordinator, on a connection of its own, so that output can never
// delay a heartbeat or a stop; there only while there is something to ship, see LogConnection.
// Passes messages between the stream and the log shipper. Everything here lives on the loop thread.
// It never looks into output.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/session/log_connection.h"
#include "agent/session/log_shipper.h"
#include "common/base/executor.h"
#include "common/rpc/channel.h"
#include "muster/v1/agent.pb.h"

namespace muster {

class LogClient final : private LogTransport {
 public:
  // `executor` and `shipper` outlive the client. `idle`: see LogConnection.
  LogClient(Executor& executor, Dialer dialer, uint64_t seed, LogShipper& shipper,
            Duration idle = LogConnection::kIdle);
  // Blocks until gRPC is done with the stream, a moment after it was cancelled.
  ~LogClient() override;
  LogClient(const LogClient&) = delete;
  LogClient& operator=(const LogClient&) = delete;

  // A session was accepted. Until it is lost, connections are made when there is work.
  void OnSession(const std::string& session_id);
  void OnSessionLost();
  // What the shipper says: LogShipper::Callbacks::work.
  void OnWork(bool work);

 private:
  class Stream;

  // LogTransport
  bool Open() override;
  void Close() override;

  void OnMessage(const Stream& stream, const v1::UploadLogsResponse& response);
  void OnEnded(const Stream& stream, const absl::Status& status);

  const Dialer dialer_;
  Executor& executor_;
  LogShipper& shipper_;
  LogConnection connection_;
  std::unique_ptr<Stream> stream_;
  // Cancelled, and gRPC may not have noticed yet. With a stream goes its connection.
  std::vector<std::unique_ptr<Stream>> ending_;
};

}  // namespace muster
