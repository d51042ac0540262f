#include "common/rpc/thin_stream.h"

#include <grpc/support/sync.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdint>

// gRPC takes such an object (GRPC_ARG_SOCKET_MUTATOR), but no header of it that is installed says
// what one is. This is its layout in 1.51, the release that Debian 12 has.
struct grpc_socket_mutator {
  struct Functions {
    bool (*change)(int fd, grpc_socket_mutator* mutator);
    int (*compare)(grpc_socket_mutator* left, grpc_socket_mutator* right);
    void (*destroy)(grpc_socket_mutator* mutator);
    // Used instead of the first one when set.
    bool (*change_by_use)(const void* info, grpc_socket_mutator* mutator);
  };
  const Functions* functions;
  gpr_refcount references;
};

namespace muster {
namespace {

grpc_socket_mutator* SteadyRetries() {
  static constexpr grpc_socket_mutator::Functions kFunctions = {
      .change =
          [](int fd, grpc_socket_mutator*) {
            RetryThinStreamsSteadily(fd);
            return true;
          },
      .compare =
          [](grpc_socket_mutator* left, grpc_socket_mutator* right) {
            const auto a = reinterpret_cast<uintptr_t>(left);
            const auto b = reinterpret_cast<uintptr_t>(right);
            return a == b ? 0 : a < b ? -1 : 1;
          },
      .destroy = [](grpc_socket_mutator*) {},
      .change_by_use = nullptr};
  // One for all channels; the reference counted here is never given back.
  static grpc_socket_mutator* const mutator = [] {
    static grpc_socket_mutator one = {.functions = &kFunctions, .references = {}};
    gpr_ref_init(&one.references, 1);
    return &one;
  }();
  return mutator;
}

}  // namespace

void RetryThinStreamsSteadily(int fd) {
  const int on = 1;
  // Not a socket of TCP: then it loses no packets.
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
}

void RetryThinStreamsSteadily(grpc::ChannelArguments& settings) {
  // Each user gives one reference back.
  gpr_ref(&SteadyRetries()->references);
  settings.SetSocketMutator(SteadyRetries());
}

}  // namespace muster
