#include "agent/shim/file_sync.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace muster::shim {

FileSync::~FileSync() {
  if (completions_ && poller_ != nullptr) poller_->Unwatch(completions_.get());
  // Waits for an operation that runs, as closing the file would.
  if (context_ != 0) (void)::syscall(SYS_io_destroy, context_);
}

bool FileSync::Open(Poller& poller) {
  if (::syscall(SYS_io_setup, 1u, &context_) != 0) {
    context_ = 0;
    return false;
  }
  completions_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  poller_ = &poller;
  return completions_ &&
         poller.Watch(completions_.get(), EPOLLIN, [this](uint32_t) { OnComplete(); });
}

bool FileSync::Start(int fd, Done done) {
  iocb request = {};
  request.aio_lio_opcode = IOCB_CMD_FDSYNC;
  request.aio_fildes = static_cast<uint32_t>(fd);
  request.aio_flags = IOCB_FLAG_RESFD;
  request.aio_resfd = static_cast<uint32_t>(completions_.get());
  iocb* requests[] = {&request};
  if (::syscall(SYS_io_submit, context_, 1L, requests) != 1) return false;
  running_ = true;
  done_ = std::move(done);
  return true;
}

void FileSync::OnComplete() {
  uint64_t count = 0;
  (void)!::read(completions_.get(), &count, sizeof(count));
  io_event event = {};
  timespec no_time = {};
  if (::syscall(SYS_io_getevents, context_, 0L, 1L, &event, &no_time) != 1) return;
  running_ = false;
  const Done done = std::move(done_);
  done(event.res < 0 ? static_cast<int>(-event.res) : 0);
}

}  // namespace muster::shim
