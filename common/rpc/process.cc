#include "common/rpc/process.h"

#include <absl/base/internal/sysinfo.h>
#include <absl/synchronization/mutex.h>
#include <grpc/support/log.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/random.h>

#include <chrono>
#include <cstdint>
#include <system_error>
#include <thread>

#include "common/base/rate_limit.h"

namespace muster {
namespace {

void LogFromGrpc(gpr_log_func_args* args) {
  // gRPC calls failures of its peers errors; for this project they are ordinary. What matters is
  // told by the status of the call.
  auto level =
      args->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::info : spdlog::level::debug;
  // Strangers can cause as many of them as they like.
  static auto* const limit = new RateLimit(20, std::chrono::seconds(10));
  if (level == spdlog::level::info) {
    if (!limit->Allows(std::chrono::steady_clock::now())) {
      level = spdlog::level::debug;
    } else if (const uint64_t left_out = limit->TakeHeldBack(); left_out > 0) {
      spdlog::info("grpc left_out={}", left_out);
    }
  }
  spdlog::log(level, "grpc at={}:{} text=\"{}\"", args->file, args->line, args->message);
}

// gRPC locks Abseil's mutexes. The first thread of a process that has to wait for one measures the
// processor's clock with sleeps of 1, 2, 4, ... ms until two agree, where the kernel does not tell
// it, and holds everybody up meanwhile. Measured ahead, nobody waits. The function is internal to
// Abseil; nothing public does just this.
void MeasureClockAhead() {
  try {
    std::thread(&absl::base_internal::NominalCPUFrequency).detach();
  } catch (const std::system_error&) {
    // No thread to be had: then whoever needs it first measures it.
  }
}

}  // namespace

}  // namespace muster

// The C++ library asks the C library for this one, which has it since 2.36 only. With our own the
// programs also run where that is older, as on Ubuntu 22.04.
extern "C" uint32_t arc4random() noexcept {
  uint32_t number = 0;
  while (::getrandom(&number, sizeof(number), 0) != sizeof(number)) {
  }
  return number;
}

namespace muster {

void PrepareProcessForGrpc() {
  // 0: the caller's value, if any, is replaced: fork handlers are never wanted.
  setenv("GRPC_ENABLE_FORK_SUPPORT", "0", 1);
  // Names are looked up as everything else on the machine does it. gRPC's own way asks name servers
  // also for what /etc/hosts has, and a connection waits for their silence.
  setenv("GRPC_DNS_RESOLVER", "native", 1);
  gpr_set_log_function(&LogFromGrpc);
#ifdef NDEBUG
  // Debian builds Abseil with its search for deadlocks, which every lock pays for. Builds for
  // development keep it.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
  MeasureClockAhead();
}

}  // namespace muster
