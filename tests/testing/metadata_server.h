// A metadata service of an instance of AWS, on a port of loopback: answers what a test has it say,
// one connection after the other, on a thread of its own.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/io/unique_fd.h"

namespace muster::testing {

class MetadataServer {
 public:
  // What it sends, and how it goes on.
  struct Reply {
    std::string bytes;
    enum { kClose, kHang, kForever } then = kClose;
  };

  MetadataServer() {
    listener_.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length);
    endpoint_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    Say("PUT /latest/api/token", "200 OK", "secret-token");
    Say("GET /latest/meta-data/placement/availability-zone", "200 OK", "us-east-1a");
    Say("GET /latest/meta-data/placement/group-name", "200 OK", "train");
    Say("GET /latest/meta-data/instance-type", "200 OK", "dl1.24xlarge");
  }
  ~MetadataServer() {
    (void)::shutdown(listener_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }

  void Say(const std::string& request, const std::string& status, const std::string& body) {
    replies_[request] = {"HTTP/1.1 " + status +
                         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body};
  }
  void Set(const std::string& request, Reply reply) { replies_[request] = std::move(reply); }
  void Start() {
    thread_ = std::thread([this] { Serve(); });
  }
  const std::string& endpoint() const { return endpoint_; }
  std::vector<std::string> requests() {
    const MutexLock lock(mutex_);
    return requests_;
  }

 private:
  void Serve() {
    while (true) {
      const UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer) return;
      std::string request;
      char chunk[1024];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t count = ::recv(peer.get(), chunk, sizeof(chunk), 0);
        if (count <= 0) break;
        request.append(chunk, static_cast<size_t>(count));
      }
      {
        const MutexLock lock(mutex_);
        requests_.push_back(request);
      }
      const auto found = replies_.find(request.substr(0, request.find(" HTTP/")));
      if (found == replies_.end()) continue;
      const Reply& reply = found->second;
      (void)::send(peer.get(), reply.bytes.data(), reply.bytes.size(), MSG_NOSIGNAL);
      // Both until the other end has had enough.
      if (reply.then == Reply::kHang) (void)::recv(peer.get(), chunk, sizeof(chunk), 0);
      const std::string more(1000, 'x');
      while (reply.then == Reply::kForever &&
             ::send(peer.get(), more.data(), more.size(), MSG_NOSIGNAL) > 0) {
      }
    }
  }

  UniqueFd listener_;
  std::string endpoint_;
  std::map<std::string, Reply> replies_;
  std::thread thread_;
  Mutex mutex_;
  std::vector<std::string> requests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::testing
