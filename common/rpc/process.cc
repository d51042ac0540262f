#include "common/rpc/process.h"

#include <grpc/support/log.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <chrono>
#include <cstdint>

#include "common/base/line_budget.h"

namespace muster {
namespace {

void LogFromGrpc(gpr_log_func_args* args) {
  // gRPC calls failures of its peers errors; for this project they are ordinary. What matters is
  // told by the status of the call.
  const auto level =
      args->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::info : spdlog::level::debug;
  if (!spdlog::should_log(level)) return;
  // Strangers on the network can cause as many as they like.
  static LineBudget budget(50, 2);
  uint64_t left_out = 0;
  if (!budget.Take(std::chrono::steady_clock::now(), left_out)) return;
  if (left_out > 0) spdlog::log(level, "grpc lines left out={}", left_out);
  spdlog::log(level, "grpc at={}:{} text=\"{}\"", args->file, args->line, args->message);
}

}  // namespace

void PrepareProcessForGrpc() {
  // 0: the caller's value, if any, is replaced: fork handlers are never wanted.
  setenv("GRPC_ENABLE_FORK_SUPPORT", "0", 1);
  gpr_set_log_function(&LogFromGrpc);
}

}  // namespace muster
