// Keeps the UploadLogs stream to the coordinator while a session is open, on a connection of its
// own, so that output can never delay a heartbeat or a stop. Passes messages between the stream and
// the log shipper. Everything here lives on the loop thread. It never looks into output.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/session/backoff.h"
#include "agent/session/log_shipper.h"
#include "common/base/executor.h"
#include "common/rpc/channel.h"
#include "muster/v1/agent.pb.h"

namespace muster {

class LogClient {
 public:
  // `executor` and `shipper` outlive the client.
  LogClient(Executor& executor, Dialer dialer, uint64_t seed, LogShipper& shipper);
  // Blocks until gRPC is done with the stream, a moment after it was cancelled.
  ~LogClient();
  LogClient(const LogClient&) = delete;
  LogClient& operator=(const LogClient&) = delete;

  // Connects for this session, and again for as long as it lasts.
  void Open(const std::string& session_id);
  // The session is over.
  void Close();

 private:
  class Stream;

  void Dial();
  void Retire();
  void OnEnded(const absl::Status& status);

  Executor& executor_;
  const Dialer dialer_;
  LogShipper& shipper_;
  Backoff backoff_;
  // Empty: no session.
  std::string session_id_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stream> stream_;
  // Cancelled, and gRPC may not have noticed yet.
  std::vector<std::unique_ptr<Stream>> ending_;
  Executor::TimerId timer_ = 0;
};

}  // namespace muster
