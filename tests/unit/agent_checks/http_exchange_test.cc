// What counts as an answer of HTTP.
#include "agent/checks/http_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(ParseHttpEndpoint, TakesNumericAddresses) {
  const absl::StatusOr<HttpEndpoint> usual = ParseHttpEndpoint("http://192.0.2.1/");
  ASSERT_TRUE(usual.ok()) << usual.status();
  EXPECT_EQ(usual->address, "192.0.2.1");
  EXPECT_EQ(usual->port, 80);
  const absl::StatusOr<HttpEndpoint> six = ParseHttpEndpoint("http://[fd00:ec2::254]:8080");
  ASSERT_TRUE(six.ok()) << six.status();
  EXPECT_EQ(six->address, "fd00:ec2::254");
  EXPECT_EQ(six->port, 8080);
  for (const char* url : {"", "http://", "https://192.0.2.1", "http://localhost",
                          "http://192.0.2.1:0", "http://192.0.2.1:65536", "http://192.0.2.1/latest",
                          "http://[::1", "http://192.0.2.1:80x"}) {
    EXPECT_FALSE(ParseHttpEndpoint(url).ok()) << url;
  }
}

TEST(ParseHttpAnswer, WaitsUntilItIsWhole) {
  const std::string whole = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nServer: EC2ws\r\n\r\nabc";
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto part = ParseHttpAnswer(whole.substr(0, size), false);
    ASSERT_TRUE(part.ok()) << size << ": " << part.status();
    EXPECT_FALSE(part->has_value()) << size;
    EXPECT_FALSE(ParseHttpAnswer(whole.substr(0, size), true).ok()) << size;
  }
  const auto answer = ParseHttpAnswer(whole, false);
  ASSERT_TRUE(answer.ok() && answer->has_value());
  EXPECT_EQ((*answer)->status, 200);
  EXPECT_EQ((*answer)->body, "abc");
}

TEST(ParseHttpAnswer, TheEndOfTheConnectionEndsABodyWithoutALength) {
  const std::string text = "HTTP/1.0 404 Not Found\r\n\r\nnone";
  EXPECT_FALSE(ParseHttpAnswer(text, false)->has_value());
  EXPECT_EQ((*ParseHttpAnswer(text, true))->body, "none");
}

TEST(ParseHttpAnswer, RefusesWhatIsNone) {
  for (const std::string& text :
       {std::string("SSH-2.0-x\r\n\r\n"), std::string("HTTP/1.1 2x0 OK\r\n\r\n"),
        std::string("HTTP/1.1 100 Go\r\n\r\n"), std::string("HTTP/1.1 20\r\n\r\n"),
        std::string("HTTP/1.1 2000\r\n\r\n"), std::string("HTTP/1.1 200 OK\r\nno header\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"),
        "HTTP/1.1 200 OK\r\nX: " + std::string(20'000, 'x')}) {
    EXPECT_FALSE(ParseHttpAnswer(text, false).ok()) << text.substr(0, 60);
  }
}

}  // namespace
}  // namespace muster
