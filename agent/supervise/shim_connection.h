// One connection to a shim's socket: requests out, records in, one packet each. Lives on the loop
// thread; never blocks. It keeps no request for a later connection and does not look into records.
#pragma once

#include <absl/status/statusor.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "common/io/event_loop.h"
#include "common/io/unique_fd.h"
#include "muster/internal/shim.pb.h"

namespace muster {

class ShimConnection {
 public:
  struct Callbacks {
    // Disconnect may be called inside of each, but the connection must not be destroyed there.
    std::function<void(const internal::ShimRecord&)> record;
    std::function<void(const std::string& reason)> closed;
  };

  // Connects to the socket in the directory. Either works at once or fails: UNAVAILABLE when nobody
  // listens there (yet).
  static absl::StatusOr<std::unique_ptr<ShimConnection>> Connect(EventLoop& loop, int directory_fd,
                                                                 Callbacks callbacks);
  ~ShimConnection();
  ShimConnection(const ShimConnection&) = delete;
  ShimConnection& operator=(const ShimConnection&) = delete;

  // Sends now, or as soon as the shim reads. A shim that does not read loses the connection when
  // kMostWaiting packets wait.
  void Send(const internal::ShimRequest& request);
  // Closes the connection; no callback comes afterwards.
  void Disconnect();

 private:
  static constexpr size_t kMostWaiting = 4096;

  ShimConnection(EventLoop& loop, UniqueFd socket, Callbacks callbacks);
  void OnReady(uint32_t events);
  bool Receive();
  bool Flush();
  void Rewatch();
  void Close(const std::string& reason);

  EventLoop& loop_;
  UniqueFd socket_;
  Callbacks callbacks_;
  std::deque<std::string> waiting_;
  bool watching_output_ = false;
};

}  // namespace muster
