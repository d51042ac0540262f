#include "agent/checks/http_exchange.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <memory>

#include "common/base/annotate.h"
#include "common/io/unique_fd.h"

namespace muster {
namespace {

using Steady = std::chrono::steady_clock;

constexpr size_t kMaxAnswerBytes = size_t{16} * 1024;

absl::Status Malformed(std::string_view what) {
  return absl::DataLossError(fmt::format("no answer that HTTP knows: {}", what));
}

absl::Status TooLate() { return absl::DeadlineExceededError("no answer in time"); }

std::optional<uint32_t> Number(std::string_view text) {
  uint32_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

bool IsHeader(std::string_view name, const char* wanted) {
  return ::strcasecmp(std::string(name).c_str(), wanted) == 0;
}

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

// Waits until `fd` is ready.
absl::Status Await(int fd, short events, Steady::time_point deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Steady::now()).count();
    if (left <= 0) return TooLate();
    pollfd one = {fd, events, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(left));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "poll");
  }
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses Numeric(const std::string& address, uint16_t port) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &raw) != 0)
    raw = nullptr;
  return Addresses(raw);
}

absl::StatusOr<UniqueFd> Dial(const HttpEndpoint& endpoint, Steady::time_point deadline) {
  const Addresses list = Numeric(endpoint.address, endpoint.port);
  if (!list) return absl::InvalidArgumentError("not a numeric address");
  UniqueFd fd(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ErrnoStatus(errno, "socket");
  const auto refused = [](int error) {
    return absl::UnavailableError(ErrnoStatus(error, "connect").message());
  };
  if (::connect(fd.get(), list->ai_addr, list->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return refused(errno);
  }
  if (absl::Status ready = Await(fd.get(), POLLOUT, deadline); !ready.ok()) return ready;
  int error = 0;
  socklen_t length = sizeof(error);
  (void)::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return refused(error);
  return fd;
}

}  // namespace

absl::StatusOr<HttpEndpoint> ParseHttpEndpoint(std::string_view url) {
  const auto wrong = [url] {
    return absl::InvalidArgumentError(
        fmt::format("expected http://ADDRESS[:PORT] with a numeric address, got '{}'", url));
  };
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return wrong();
  std::string_view place = url.substr(kScheme.size());
  if (place.ends_with('/')) place.remove_suffix(1);
  HttpEndpoint endpoint;
  std::string_view port;
  if (place.starts_with('[')) {
    const size_t end = place.find(']');
    if (end == std::string_view::npos) return wrong();
    endpoint.address = place.substr(1, end - 1);
    port = place.substr(end + 1);
  } else {
    const size_t colon = std::min(place.find(':'), place.size());
    endpoint.address = place.substr(0, colon);
    port = place.substr(colon);
  }
  if (!port.empty()) {
    const std::optional<uint32_t> number =
        port.starts_with(':') ? Number(port.substr(1)) : std::nullopt;
    if (!number || *number == 0 || *number > 65535) return wrong();
    endpoint.port = static_cast<uint16_t>(*number);
  }
  if (!Numeric(endpoint.address, endpoint.port)) return wrong();
  return endpoint;
}

absl::StatusOr<std::optional<HttpAnswer>> ParseHttpAnswer(std::string_view bytes, bool ended) {
  if (bytes.size() > kMaxAnswerBytes) return Malformed("too long");
  const auto more = [ended]() -> absl::StatusOr<std::optional<HttpAnswer>> {
    if (ended) return Malformed("cut short");
    return std::nullopt;
  };
  constexpr std::string_view kStart = "HTTP/1.";
  if (!bytes.starts_with(kStart.substr(0, bytes.size()))) return Malformed("other bytes");
  const size_t head_end = bytes.find("\r\n\r\n");
  if (head_end == std::string_view::npos) return more();
  std::string_view head = bytes.substr(0, head_end);
  const size_t line_end = std::min(head.find("\r\n"), head.size());
  const std::string_view line = head.substr(0, line_end);
  // "HTTP/1.1 200 OK".
  const std::optional<uint32_t> status =
      line.size() >= 12 && line[8] == ' ' ? Number(line.substr(9, 3)) : std::nullopt;
  if (!status || *status < 200 || *status > 599 || (line.size() > 12 && line[12] != ' ')) {
    return Malformed("its status line");
  }
  head.remove_prefix(std::min(line_end + 2, head.size()));
  std::optional<uint32_t> length;
  while (!head.empty()) {
    const size_t end = std::min(head.find("\r\n"), head.size());
    const std::string_view header = head.substr(0, end);
    head.remove_prefix(std::min(end + 2, head.size()));
    const size_t colon = header.find(':');
    if (colon == std::string_view::npos) return Malformed("a header without a colon");
    if (IsHeader(header.substr(0, colon), "transfer-encoding")) return Malformed("its encoding");
    if (!IsHeader(header.substr(0, colon), "content-length")) continue;
    const std::optional<uint32_t> told = Number(Trimmed(header.substr(colon + 1)));
    if (!told || *told > kMaxAnswerBytes || (length && *length != *told)) {
      return Malformed("its length");
    }
    length = told;
  }
  const std::string_view body = bytes.substr(head_end + 4);
  if (length ? body.size() < *length : !ended) return more();
  HttpAnswer answer;
  answer.status = static_cast<int>(*status);
  answer.body = body.substr(0, length.value_or(static_cast<uint32_t>(body.size())));
  return answer;
}

absl::StatusOr<HttpAnswer> ExchangeHttp(const HttpEndpoint& endpoint, const HttpRequest& request,
                                        Steady::time_point deadline) {
  const absl::StatusOr<UniqueFd> fd = Dial(endpoint, deadline);
  if (!fd.ok()) return fd.status();
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
                                 request.method, request.target, endpoint.address);
  if (request.method != "GET") text += "Content-Length: 0\r\n";
  for (const std::string& header : request.headers) text += header + "\r\n";
  text += "\r\n";
  std::string_view left = text;
  while (!left.empty()) {
    if (absl::Status ready = Await(fd->get(), POLLOUT, deadline); !ready.ok()) return ready;
    const ssize_t count = ::send(fd->get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return absl::UnavailableError(ErrnoStatus(errno, "send").message());
    left.remove_prefix(static_cast<size_t>(count));
  }
  std::string received;
  while (true) {
    if (absl::Status ready = Await(fd->get(), POLLIN, deadline); !ready.ok()) return ready;
    char chunk[4096];
    const ssize_t count = ::recv(fd->get(), chunk, sizeof(chunk), 0);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return absl::UnavailableError(ErrnoStatus(errno, "receive").message());
    received.append(chunk, static_cast<size_t>(count));
    absl::StatusOr<std::optional<HttpAnswer>> answer = ParseHttpAnswer(received, count == 0);
    if (!answer.ok()) return answer.status();
    if (*answer) return **std::move(answer);
  }
}

}  // namespace muster
