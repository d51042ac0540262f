// The file by which deepspeed's --save_pid tells scripts what to signal: FOLDER/ID.deepspeed holds
// the id of this process, which is ID. Gone when this object is, unless another file has taken its
// place. Main thread.
#pragma once

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <memory>
#include <string>

namespace muster {

class PidFile {
 public:
  // Never follows a link and never writes to a file that is there. One that an ended process of
  // this user has left is replaced; another is ALREADY_EXISTS.
  static absl::StatusOr<std::unique_ptr<PidFile>> Create(const std::string& folder);
  ~PidFile();
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  PidFile(std::string path, dev_t device, ino_t inode)
      : path_(std::move(path)), device_(device), inode_(inode) {}

  const std::string path_;
  const dev_t device_;
  const ino_t inode_;
};

}  // namespace muster
