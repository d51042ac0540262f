// The state directory of an agent that joins a cluster for one job: made in the folder for
// temporary files, for this user only, and removed with all that is in it. One that is killed
// leaves it.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <utility>

namespace muster {

class PrivateState {
 public:
  // In `folder`; in /tmp when that is no absolute path.
  static absl::StatusOr<PrivateState> Make(const std::string& folder);

  PrivateState(PrivateState&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  PrivateState& operator=(PrivateState&&) = delete;
  ~PrivateState();

  const std::string& path() const { return path_; }

 private:
  explicit PrivateState(std::string path) : path_(std::move(path)) {}

  // Empty: moved away.
  std::string path_;
};

}  // namespace muster
