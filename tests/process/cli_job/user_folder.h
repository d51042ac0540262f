// A user with a home directory and a working directory in a temporary folder, which is removed at
// the end.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "coordinator/cli/client_env.h"

namespace muster {

class UserFolder {
 public:
  UserFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-job.XXXXXX").string();
    root_ = mkdtemp(name.data()) != nullptr ? name : "";
    client.cwd = root_ + "/work";
    client.home = root_ + "/home";
    client.user = "alice";
    std::filesystem::create_directories(client.cwd);
    std::filesystem::create_directories(client.home);
  }
  ~UserFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  UserFolder(const UserFolder&) = delete;
  UserFolder& operator=(const UserFolder&) = delete;

  // Writes a file, given relative to the working directory.
  void Write(const std::string& path, std::string_view content) const {
    const std::filesystem::path full = std::filesystem::path(client.cwd) / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full, std::ios::binary) << content;
  }

  ClientEnv client;

 private:
  std::string root_;
};

}  // namespace muster
