#include "agent/shim/container_removal.h"

#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "agent/shim/containers.h"
#include "agent/shim/lease.h"
#include "agent/shim/poller.h"
#include "agent/shim/text.h"
#include "common/io/unique_fd.h"

namespace muster::shim {
namespace {

void ReapAll(Containers& containers) {
  siginfo_t info = {};
  while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WALL) == 0 && info.si_pid != 0) {
    containers.OnReaped(info);
    info = {};
  }
}

}  // namespace

int RemoveContainers(const internal::ShimBootstrap& bootstrap, milliseconds limit) {
  Poller poller;
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  const UniqueFd signals(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  Containers containers(poller);
  const bool ready =
      poller.Open() && signals && poller.Watch(signals.get(), EPOLLIN, [&](uint32_t) {
        signalfd_siginfo info;
        while (::read(signals.get(), &info, sizeof(info)) > 0) {
        }
        ReapAll(containers);
      });
  if (!ready) {
    Complain("cannot wait for events: " + ErrnoText(errno));
    return 1;
  }
  std::string problem;
  std::optional<LeaseSet> leases = LeasesFor(bootstrap, problem);
  const std::vector<uint32_t> slots(bootstrap.slots().begin(), bootstrap.slots().end());
  // Those that somebody has by now are his; a mark of an earlier run is as good as the lock.
  for (const uint32_t slot : slots) {
    if (leases) (void)leases->TakeSlot(slot);
  }
  // First of all: whoever ends this process must not end the withholding.
  if (leases) {
    problem =
        leases->MarkAll(AttemptNameOf(bootstrap),
                        "its containers were to be removed, and nobody knows whether they are");
  }
  containers.Configure(bootstrap);
  containers.NoteStart();
  // Twice: the clients have died a moment ago.
  containers.BeginRemoval(/*again=*/true);
  const SteadyTime end = std::chrono::steady_clock::now() + limit;
  while (!containers.gone() && std::chrono::steady_clock::now() < end) {
    poller.RunOnce(std::min(end, containers.deadline().value_or(end)));
    containers.OnTime(std::chrono::steady_clock::now());
  }
  if (leases && containers.gone()) {
    leases->EndWithholding(AttemptNameOf(bootstrap), slots);
    problem.clear();
  }
  if (leases && !containers.gone()) {
    std::string left;
    for (const std::string& line : containers.Remaining()) {
      left += (left.empty() ? "" : "; ") + line;
    }
    problem = leases->MarkAll(AttemptNameOf(bootstrap), left);
  }
  if (!problem.empty()) Complain("slots are not withheld: " + problem);
  std::string text = "killed " + std::to_string(containers.killed()) + "\n";
  for (const std::string& line : containers.Remaining()) text += line + "\n";
  // One write: less than a pipe holds but for thousands of containers.
  return ::write(STDOUT_FILENO, text.data(), text.size()) < 0 || !containers.gone() ? 1 : 0;
}

}  // namespace muster::shim
