#include "agent/daemon/private_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <cerrno>

#include "agent/supervise/remove_tree.h"
#include "common/base/annotate.h"

namespace muster {

absl::StatusOr<PrivateState> PrivateState::Make(const std::string& folder) {
  std::string path =
      fmt::format("{}/muster-agent-XXXXXX", folder.starts_with('/') ? folder : "/tmp");
  if (::mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, path);
  return PrivateState(std::move(path));
}

PrivateState::~PrivateState() {
  if (path_.empty()) return;
  const absl::Status removed = RemoveTree(AT_FDCWD, path_);
  if (!removed.ok()) spdlog::warn("state stays error={}", MessageOf(removed));
}

}  // namespace muster
