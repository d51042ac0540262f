#include "common/io/oom_score.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "common/io/unique_fd.h"

namespace muster {
namespace {

constexpr char kFile[] = "/proc/self/oom_score_adj";

}  // namespace

std::optional<int> ReadOomScore() {
  const UniqueFd fd(::open(kFile, O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  char text[16] = {};
  if (::read(fd.get(), text, sizeof(text) - 1) <= 0) return std::nullopt;
  return std::atoi(text);
}

bool WriteOomScore(int score) {
  const UniqueFd fd(::open(kFile, O_WRONLY | O_CLOEXEC));
  if (!fd) return false;
  const std::string text = std::to_string(score);
  return ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace muster
