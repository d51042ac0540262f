#include "common/trust/tls_dial.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "common/base/annotate.h"

namespace muster {
namespace {

TimePoint Now() { return std::chrono::steady_clock::now(); }

// Waits until `fd` is ready; false when `deadline` has come first.
bool AwaitReady(int fd, short events, TimePoint deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Now()).count();
    if (left <= 0) return false;
    pollfd waiting = {fd, events, 0};
    const int count = ::poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return true;  // What comes next tells the error.
  }
}

absl::Status LateStatus(std::string_view doing, const std::string& address,
                        std::chrono::milliseconds limit) {
  return absl::DeadlineExceededError(fmt::format("{} {}: no answer within {} s", doing, address,
                                                 std::chrono::duration<double>(limit).count()));
}

}  // namespace

absl::StatusOr<HostPort> SplitAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostPort parts;
  if (colon != std::string::npos) {
    parts = {address.substr(0, colon), address.substr(colon + 1)};
    if (parts.host.size() > 2 && parts.host.front() == '[' && parts.host.back() == ']') {
      parts.host = parts.host.substr(1, parts.host.size() - 2);
    } else if (parts.host.find(':') != std::string::npos) {
      parts.host.clear();
    }
  }
  const bool number = !parts.port.empty() && parts.port.size() <= 5 &&
                      std::all_of(parts.port.begin(), parts.port.end(),
                                  [](char c) { return c >= '0' && c <= '9'; });
  if (parts.host.empty() || !number || std::stoi(parts.port) > 65535) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is no address: expected host:port, like head.example:7443 or [2001:db8::1]:7443",
        address));
  }
  return parts;
}

TlsDial::TlsDial(std::string address, std::string doing, std::chrono::milliseconds limit)
    : address_(std::move(address)),
      doing_(std::move(doing)),
      limit_(limit),
      deadline_(Now() + limit) {}

absl::StatusOr<TlsDial> TlsDial::Connect(std::string address, std::string doing,
                                         std::chrono::milliseconds limit) {
  TlsDial dial(std::move(address), std::move(doing), limit);
  absl::StatusOr<UniqueFd> fd = dial.ConnectToAny();
  if (!fd.ok()) return fd.status();
  dial.fd_ = *std::move(fd);
  return dial;
}

absl::StatusOr<UniqueFd> TlsDial::ConnectToAny() const {
  const absl::StatusOr<HostPort> parts = SplitAddress(address_);
  if (!parts.ok()) return parts.status();
  const std::string doing = fmt::format("cannot connect to {}", address_);
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* raw = nullptr;
  const int error = ::getaddrinfo(parts->host.c_str(), parts->port.c_str(), &hints, &raw);
  if (error != 0) {
    return absl::UnavailableError(fmt::format("{}: the name '{}' is not found: {}", doing,
                                              parts->host, ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(raw, &::freeaddrinfo);
  const auto connect = [&](const addrinfo& to) -> absl::StatusOr<UniqueFd> {
    UniqueFd fd(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return ErrnoStatus(errno, doing);
    if (::connect(fd.get(), to.ai_addr, to.ai_addrlen) == 0) return fd;
    if (errno != EINPROGRESS) return ErrnoStatus(errno, doing);
    if (!AwaitReady(fd.get(), POLLOUT, deadline_)) {
      return LateStatus("cannot connect to", address_, limit_);
    }
    int failed = 0;
    socklen_t size = sizeof failed;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failed, &size) != 0) failed = errno;
    if (failed != 0) return ErrnoStatus(failed, doing);
    return fd;
  };
  absl::StatusOr<UniqueFd> fd = absl::UnavailableError(address_);
  for (const addrinfo* at = raw; at != nullptr; at = at->ai_next) {
    fd = connect(*at);
    if (fd.ok()) return fd;
  }
  return fd;
}

absl::Status TlsDial::Late() const { return LateStatus(doing_, address_, limit_); }

// Repeats `step` until it is done or the other end has ended.
template <typename Step>
absl::StatusOr<TlsProgress> TlsDial::Drive(Step step) {
  while (true) {
    const absl::StatusOr<TlsProgress> progress = step();
    if (!progress.ok() || *progress == TlsProgress::kDone || *progress == TlsProgress::kEnd) {
      return progress;
    }
    const short events = *progress == TlsProgress::kWantsWrite ? POLLOUT : POLLIN;
    if (!AwaitReady(fd_.get(), events, deadline_)) return Late();
  }
}

absl::Status TlsDial::Handshake(const TlsContext& context, TlsSession::Verifier verifier) {
  absl::StatusOr<TlsSession> session = TlsSession::Client(context, fd_.get(), std::move(verifier));
  if (!session.ok()) return session.status();
  session_ = *std::move(session);
  return Drive([&] { return session_->Handshake(); }).status();
}

absl::StatusOr<TlsProgress> TlsDial::Write(std::string_view bytes) {
  return Drive([&] { return session_->Write(bytes); });
}

absl::StatusOr<TlsProgress> TlsDial::Read(size_t max_bytes, std::string& out) {
  return Drive([&] { return session_->Read(max_bytes, out); });
}

}  // namespace muster
