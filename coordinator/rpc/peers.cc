#include "coordinator/rpc/peers.h"

#include <fmt/format.h>
#include <grpcpp/support/client_interceptor.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "common/io/account.h"

namespace muster {
namespace {

// Carries the secret of in-process channels.
constexpr char kSecretKey[] = "muster-in-process";

// What gRPC calls a connection that was made of a file descriptor.
std::string NameOfFd(int fd) { return fmt::format("fd:{}", fd); }

std::string MakeSecret() {
  std::array<uint64_t, 4> bits{};
  // Cannot fail for so few bytes once the kernel has its entropy, which it waits for.
  while (::getrandom(bits.data(), sizeof bits, 0) != sizeof bits) {
  }
  return fmt::format("{:016x}{:016x}{:016x}{:016x}", bits[0], bits[1], bits[2], bits[3]);
}

class SecretInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit SecretInterceptor(const std::string& secret) : secret_(secret) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace(kSecretKey, secret_);
    }
    methods->Proceed();
  }

 private:
  const std::string secret_;
};

class SecretInterceptorFactory final
    : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit SecretInterceptorFactory(std::string secret) : secret_(std::move(secret)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new SecretInterceptor(secret_);
  }

 private:
  const std::string secret_;
};

}  // namespace

LocalPeers::LocalPeers()
    : owner_(::geteuid()), owner_name_(AccountName(owner_)), secret_(MakeSecret()) {}

std::shared_ptr<grpc::Channel> LocalPeers::InProcessChannel(
    grpc::Server& server, const grpc::ChannelArguments& settings) const {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<SecretInterceptorFactory>(secret_));
  return server.experimental().InProcessChannelWithInterceptors(settings, std::move(interceptors));
}

Peer LocalPeers::Identify(const grpc::CallbackServerContext& call) const {
  const auto secret = call.client_metadata().find(kSecretKey);
  if (secret != call.client_metadata().end() && secret->second == secret_) {
    return {.role = Role::kAdmin, .user = owner_name_};
  }
  return IdentifyConnection(call.peer());
}

Peer LocalPeers::IdentifyConnection(const std::string& connection) const {
  MutexLock lock(mutex_);
  const auto found = users_.find(connection);
  return found == users_.end() ? Peer{} : found->second;
}

void LocalPeers::Accepted(int fd, uid_t uid, std::string user) {
  Peer peer = {.role = Role::kAdmin, .user = uid == owner_ ? owner_name_ : "root"};
  if (!IsOwner(uid)) peer = {.role = Role::kSubmitter, .user = std::move(user)};
  MutexLock lock(mutex_);
  users_[NameOfFd(fd)] = std::move(peer);
}

void LocalPeers::Refused(int fd, std::string reason) {
  MutexLock lock(mutex_);
  users_[NameOfFd(fd)] = {.role = Role::kNobody, .refusal = std::move(reason)};
}

}  // namespace muster
