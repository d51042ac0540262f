// One small HTTP/1.1 exchange with a service of the machine itself, such as the metadata service of
// a cloud. Blocks until the answer is there or it is too late, whatever the other end does. Numeric
// addresses only, no TLS, no redirects, answers of a few KiB. Any thread.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct HttpEndpoint {
  // Numeric.
  std::string address;
  uint16_t port = 80;
};

// `http://10.0.0.1`, `http://10.0.0.1:8080/`, `http://[fd00::1]`. INVALID_ARGUMENT otherwise.
absl::StatusOr<HttpEndpoint> ParseHttpEndpoint(std::string_view url);

struct HttpRequest {
  std::string method = "GET";
  // Path.
  std::string target;
  // `Name: value`, besides those that every request has.
  std::vector<std::string> headers;
};

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// What `bytes` say, which are all so far; `ended`: there are no more. Nothing: more is needed.
// Takes bodies with a Content-Length and those that the end of the connection ends; everything
// else, and more than 16 KiB, is an error. Pure.
absl::StatusOr<std::optional<HttpAnswer>> ParseHttpAnswer(std::string_view bytes, bool ended);

// DEADLINE_EXCEEDED: it was too late. UNAVAILABLE: there was no connection, or it broke.
absl::StatusOr<HttpAnswer> ExchangeHttp(const HttpEndpoint& endpoint, const HttpRequest& request,
                                        std::chrono::steady_clock::time_point deadline);

}  // namespace muster
