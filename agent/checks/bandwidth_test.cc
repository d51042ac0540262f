#include "agent/checks/bandwidth_test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/annotate.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kMostTests = 8;
constexpr size_t kMinTokenBytes = 16;
constexpr size_t kMaxTokenBytes = 256;
constexpr size_t kMaxAddresses = 16;
constexpr size_t kBufferBytes = 256 * 1024;
constexpr milliseconds kLongest{10'000};
constexpr milliseconds kConnectLimit{2000};
// How soon a thread notices that it is to end.
constexpr milliseconds kSlice{50};

struct Limits {
  Steady::time_point deadline;
  const std::atomic<bool>& stop;

  bool over() const { return stop || Steady::now() >= deadline; }
};

// Waits until `fd` is ready; false when it is too late.
bool Await(int fd, short events, const Limits& limits) {
  while (!limits.over()) {
    pollfd one = {fd, events, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(kSlice.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
  return false;
}

absl::StatusOr<UniqueFd> OpenListener(uint32_t* port) {
  // Both families on one port; without IPv6 the other alone.
  for (const int family : {AF_INET6, AF_INET}) {
    UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) continue;
    const int off = 0;
    sockaddr_storage address = {};
    socklen_t length = sizeof(sockaddr_in);
    address.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET6) {
      length = sizeof(sockaddr_in6);
      (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        ::listen(fd.get(), 4) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      continue;
    }
    *port = ntohs(family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                     : reinterpret_cast<sockaddr_in&>(address).sin_port);
    return fd;
  }
  return ErrnoStatus(errno, "listen");
}

// Reads exactly `size` bytes; false: it ended before, or it is too late.
bool ReadToken(int fd, size_t size, std::string* token, const Limits& limits) {
  token->clear();
  while (token->size() < size) {
    char chunk[kMaxTokenBytes];
    if (!Await(fd, POLLIN, limits)) return false;
    const ssize_t count = ::recv(fd, chunk, std::min(sizeof(chunk), size - token->size()), 0);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return false;
    token->append(chunk, static_cast<size_t>(count));
  }
  return true;
}

void Receive(const UniqueFd& listener, const std::string& token, const Limits& limits) {
  std::vector<char> buffer(kBufferBytes);
  while (Await(listener.get(), POLLIN, limits)) {
    const UniqueFd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer) continue;
    std::string said;
    // Whoever says something else, or nothing, must not keep the other end out for long.
    const Limits greeting{std::min(limits.deadline, Steady::now() + milliseconds(500)),
                          limits.stop};
    if (!ReadToken(peer.get(), token.size(), &said, greeting) || said != token) continue;
    while (Await(peer.get(), POLLIN, limits)) {
      const ssize_t count = ::recv(peer.get(), buffer.data(), buffer.size(), 0);
      if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) return;
    }
    return;
  }
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

absl::StatusOr<UniqueFd> Dial(const std::string& address, uint32_t port, const Limits& limits) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &raw) != 0) {
    return absl::InvalidArgumentError("not a numeric address");
  }
  const std::unique_ptr<addrinfo, FreeAddresses> list(raw);
  UniqueFd fd(::socket(raw->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ErrnoStatus(errno, "socket");
  if (::connect(fd.get(), raw->ai_addr, raw->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return ErrnoStatus(errno, "connect");
  }
  const Limits patience{std::min(limits.deadline, Steady::now() + kConnectLimit), limits.stop};
  if (!Await(fd.get(), POLLOUT, patience)) return absl::DeadlineExceededError("no answer in time");
  int error = 0;
  socklen_t length = sizeof(error);
  (void)::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return ErrnoStatus(error, "connect");
  return fd;
}

// What the kernel of this end still holds.
uint64_t Unsent(int fd) {
  tcp_info info = {};
  socklen_t length = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 0;
  return uint64_t{info.tcpi_unacked} * info.tcpi_snd_mss;
}

absl::StatusOr<v1::NetworkRate> SendFor(const v1::NetworkConnect& request, const Limits& limits) {
  using google::protobuf::util::TimeUtil;
  std::string failures;
  for (const std::string& address : request.addresses()) {
    const Steady::time_point dialled = Steady::now();
    const absl::StatusOr<UniqueFd> fd = Dial(address, request.port(), limits);
    if (!fd.ok()) {
      failures +=
          fmt::format("{}{}: {}", failures.empty() ? "" : "; ", address, MessageOf(fd.status()));
      continue;
    }
    const Steady::time_point begin = Steady::now();
    const milliseconds duration(std::clamp<int64_t>(
        TimeUtil::DurationToMilliseconds(request.duration()), 1, kLongest.count()));
    const Limits sending{std::min(limits.deadline, begin + duration), limits.stop};
    std::vector<char> zeros(kBufferBytes);
    std::string_view left = request.token();
    uint64_t sent = 0;
    while (Await(fd->get(), POLLOUT, sending)) {
      const char* const data = left.empty() ? zeros.data() : left.data();
      const size_t size = left.empty() ? zeros.size() : left.size();
      const ssize_t count = ::send(fd->get(), data, size, MSG_NOSIGNAL);
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count < 0) return ErrnoStatus(errno, fmt::format("send to {}", address));
      if (left.empty()) {
        sent += static_cast<uint64_t>(count);
      } else {
        left.remove_prefix(static_cast<size_t>(count));
      }
    }
    const Steady::time_point end = Steady::now();
    v1::NetworkRate rate;
    rate.set_address(address);
    rate.set_bytes(sent - std::min(sent, Unsent(fd->get())));
    const auto nanoseconds = [](Steady::duration time) {
      return TimeUtil::NanosecondsToDuration(
          std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
    };
    *rate.mutable_duration() = nanoseconds(end - begin);
    *rate.mutable_connect_time() = nanoseconds(begin - dialled);
    return rate;
  }
  return absl::UnavailableError(failures.empty() ? "no address to connect to" : failures);
}

absl::Status CheckToken(const std::string& token) {
  if (token.size() >= kMinTokenBytes && token.size() <= kMaxTokenBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the token must have {} to {} bytes", kMinTokenBytes, kMaxTokenBytes));
}

absl::Status TooMany() {
  return absl::ResourceExhaustedError("too many network tests run on this node");
}

}  // namespace

BandwidthTest::~BandwidthTest() {
  for (Test& test : tests_) test.stop = true;
  for (Test& test : tests_) {
    if (test.thread.joinable()) test.thread.join();
  }
}

BandwidthTest::Test* BandwidthTest::NewTest() {
  for (auto it = tests_.begin(); it != tests_.end();) {
    if (!it->ended) {
      ++it;
      continue;
    }
    if (it->thread.joinable()) it->thread.join();
    it = tests_.erase(it);
  }
  return tests_.size() >= kMostTests ? nullptr : &tests_.emplace_back();
}

void BandwidthTest::Listen(const v1::NetworkListen& request, milliseconds limit, Listening done) {
  const auto answer = [this, &done](absl::StatusOr<uint32_t> port) {
    executor_.Post(
        [done = std::move(done), port = std::move(port), alive = std::weak_ptr<int>(alive_)] {
          if (!alive.expired()) done(port);
        });
  };
  if (absl::Status status = CheckToken(request.token()); !status.ok()) return answer(status);
  uint32_t port = 0;
  absl::StatusOr<UniqueFd> listener = OpenListener(&port);
  if (!listener.ok()) return answer(listener.status());
  Test* const test = NewTest();
  if (test == nullptr) return answer(TooMany());
  const Steady::time_point deadline = Steady::now() + std::min(limit, 2 * kLongest);
  try {
    test->thread =
        std::thread([test, deadline, token = request.token(), fd = std::move(*listener)] {
          Receive(fd, token, {deadline, test->stop});
          test->ended = true;
        });
  } catch (const std::system_error&) {
    test->ended = true;
    return answer(absl::ResourceExhaustedError("no thread can be had"));
  }
  answer(port);
}

void BandwidthTest::Connect(const v1::NetworkConnect& request, milliseconds limit, Measured done) {
  absl::Status fit = CheckToken(request.token());
  if (fit.ok() && (request.port() == 0 || request.port() > 65535 ||
                   request.addresses_size() > static_cast<int>(kMaxAddresses))) {
    fit = absl::InvalidArgumentError("no port, or too many addresses");
  }
  Test* const test = fit.ok() ? NewTest() : nullptr;
  if (fit.ok() && test == nullptr) fit = TooMany();
  const Steady::time_point deadline = Steady::now() + std::min(limit, 2 * kLongest);
  // The thread must not hold what belongs to the loop: only the task that it posts does.
  const auto post = [executor = &executor_, done,
                     alive = std::weak_ptr<int>(alive_)](absl::StatusOr<v1::NetworkRate> rate) {
    executor->Post([done, rate = std::move(rate), alive] {
      if (!alive.expired()) done(rate);
    });
  };
  if (fit.ok()) {
    try {
      test->thread = std::thread([test, deadline, request, post] {
        post(SendFor(request, {deadline, test->stop}));
        test->ended = true;
      });
      return;
    } catch (const std::system_error&) {
      test->ended = true;
      fit = absl::ResourceExhaustedError("no thread can be had");
    }
  }
  post(fit);
}

}  // namespace muster
