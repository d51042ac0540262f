// A folder for one test, deleted with everything in it at the end; and names that no other test run
// on this machine uses.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "agent/supervise/remove_tree.h"
#include "common/base/ids.h"

namespace muster {

// Processes of an attempt are found by its name all over the machine, so runs of the tests must not
// share names.
inline AttemptId UniqueAttempt(const char* name) {
  return {JobId(std::string(name) + "-" + std::to_string(::getpid())), 1};
}

class TempDirectory {
 public:
  TempDirectory() {
    const char* base = std::getenv("TMPDIR");
    std::string pattern = std::string(base != nullptr ? base : "/tmp") + "/muster-test-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
    path_ = pattern;
  }
  ~TempDirectory() { EXPECT_TRUE(RemoveTree(AT_FDCWD, path_).ok()); }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace muster
