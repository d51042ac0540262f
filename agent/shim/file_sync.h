// fdatasync that is not waited for: the kernel does it in the background (Linux AIO) and the loop
// hears of its end. A disk that is busy, or whose path is being switched, then holds up neither the
// ranks' output nor the lease. Lives on the shim's only thread.
#pragma once

#include <linux/aio_abi.h>

#include <functional>

#include "agent/shim/poller.h"
#include "common/io/unique_fd.h"

namespace muster::shim {

class FileSync {
 public:
  // Called with 0 or the errno of fdatasync.
  using Done = std::function<void(int error_number)>;

  FileSync() = default;
  ~FileSync();
  FileSync(const FileSync&) = delete;
  FileSync& operator=(const FileSync&) = delete;

  // False: this kernel, or a sandbox, has no asynchronous fdatasync. Then call nothing else.
  [[nodiscard]] bool Open(Poller& poller);

  // Begins; `done` is called later. False when the kernel refuses. Not while one is running.
  [[nodiscard]] bool Start(int fd, Done done);
  bool running() const { return running_; }

 private:
  void OnComplete();

  Poller* poller_ = nullptr;
  aio_context_t context_ = 0;
  UniqueFd completions_;
  bool running_ = false;
  Done done_;
};

}  // namespace muster::shim
