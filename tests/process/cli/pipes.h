// Pipes and folders for tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "common/base/mutex.h"
#include "common/io/unique_fd.h"

namespace muster::testing {

// A pipe of the smallest size, so that it fills up soon.
class Pipe {
 public:
  Pipe() {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) ADD_FAILURE() << "pipe2";
    read_.Reset(ends[0]);
    write_.Reset(ends[1]);
    ::signal(SIGPIPE, SIG_IGN);
  }
  int write_fd() const { return write_.get(); }
  int read_fd() const { return read_.get(); }
  void CloseRead() { read_.Reset(); }
  void CloseWrite() { write_.Reset(); }

  // What can be read without waiting longer than `limit` for more.
  std::string Read(std::chrono::milliseconds limit = std::chrono::milliseconds(0)) {
    std::string text;
    for (;;) {
      pollfd ready = {read_.get(), POLLIN, 0};
      if (::poll(&ready, 1, static_cast<int>(limit.count())) <= 0) return text;
      char buffer[65536];
      const ssize_t count = ::read(read_.get(), buffer, sizeof(buffer));
      if (count <= 0) return text;
      text.append(buffer, static_cast<size_t>(count));
    }
  }
  // Reads until `bytes` have come or 20 s are over.
  std::string ReadBytes(size_t bytes) {
    std::string text;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (text.size() < bytes && std::chrono::steady_clock::now() < limit) {
      text += Read(std::chrono::milliseconds(20));
    }
    return text;
  }

 private:
  UniqueFd read_;
  UniqueFd write_;
};

// An event of another thread, waited for with a bound.
class Event {
 public:
  void Set() {
    MutexLock lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  bool Wait(std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, limit,
                             [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return set_; });
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool set_ ABSL_GUARDED_BY(mutex_) = false;
};

// A folder that goes away with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-cli-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace muster::testing
