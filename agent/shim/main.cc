// muster-shim: owns the ranks of one attempt on one node. Started by the agent with a ShimBootstrap
// on its stdin; the end of its stdout tells that its socket accepts connections. It leaves the
// agent's session and outlives it. With `--remove-containers MILLISECONDS` it removes the
// containers of the attempt instead, and ends; with --probe it is something else, which starts no
// rank: see probe.h. See supervisor.h for what it does and proto/muster/internal/shim.proto for
// what is said.

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "agent/shim/container_removal.h"
#include "agent/shim/probe.h"
#include "agent/shim/process_setup.h"
#include "agent/shim/supervisor.h"
#include "agent/shim/text.h"
#include "common/base/version.h"
#include "muster/internal/shim.pb.h"

namespace muster::shim {
namespace {

constexpr size_t kMaxBootstrapBytes = size_t{512} << 20;

bool ReadStdin(std::string& bytes) {
  char chunk[64 * 1024];
  while (true) {
    const ssize_t count = ::read(STDIN_FILENO, chunk, sizeof(chunk));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    if (count == 0) return true;
    bytes.append(chunk, static_cast<size_t>(count));
    if (bytes.size() > kMaxBootstrapBytes) return false;
  }
}

// Empty when the bootstrap can be acted on.
std::string CheckBootstrap(const internal::ShimBootstrap& bootstrap) {
  if (bootstrap.format() != 1) return "the bootstrap has a format that is not known here";
  if (!bootstrap.attempt_directory().starts_with('/')) return "attempt_directory is not absolute";
  if (!bootstrap.lease_directory().empty() && !bootstrap.lease_directory().starts_with('/')) {
    return "lease_directory is not absolute";
  }
  if (bootstrap.ranks().empty()) return "there are no ranks";
  std::set<uint32_t> numbers;
  for (const internal::ShimRank& rank : bootstrap.ranks()) {
    if (!numbers.insert(rank.rank()).second) {
      return "rank " + std::to_string(rank.rank()) + " is there twice";
    }
  }
  return "";
}

int Main(const char* remove_limit_ms) {
  const Inherited inherited = SetUpProcess();
  internal::ShimBootstrap bootstrap;
  {
    std::string bytes;
    if (!ReadStdin(bytes) || !bootstrap.ParseFromString(bytes)) {
      Complain("expected a ShimBootstrap on stdin; the agent starts this program, not people");
      return kExitBadBootstrap;
    }
  }
  if (remove_limit_ms != nullptr) {
    return RemoveContainers(bootstrap, milliseconds(std::atoi(remove_limit_ms)));
  }
  const std::string problem = CheckBootstrap(bootstrap);
  if (!problem.empty()) {
    Complain("bad bootstrap: " + problem);
    return kExitBadBootstrap;
  }
  return Supervisor(std::move(bootstrap), inherited).Run();
}

}  // namespace
}  // namespace muster::shim

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    const std::string text = std::string("muster-shim ") + muster::kVersion + "\n";
    return ::write(STDOUT_FILENO, text.data(), text.size()) < 0 ? 1 : 0;
  }
  if (argc == 2 && std::strcmp(argv[1], "--probe") == 0) return muster::shim::RunProbe();
  const bool removes = argc == 3 && std::strcmp(argv[1], "--remove-containers") == 0;
  return muster::shim::Main(removes ? argv[2] : nullptr);
}
