// Turns what the coordinator wants of this node into what the shim needs: final argv and
// environment of every rank. Pure: the agent's own environment is an argument. Never expands
// anything by a shell.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/core/container.h"
#include "agent/core/user_gate.h"
#include "common/base/ids.h"
#include "muster/internal/shim.pb.h"
#include "muster/v1/types.pb.h"

namespace muster {

// Quota of a rank's log when the job names none.
inline constexpr uint64_t kDefaultLogQuotaBytes = uint64_t{1} << 30;

// How long cards are waited for when the job does not say.
inline constexpr uint64_t kDefaultDeviceWaitMs = 5000;

// What composing needs besides the launch specification.
struct ComposeContext {
  AttemptId attempt;
  NodeId node;
  // The agent's own environment, `NAME=value` strings.
  std::vector<std::string> environ;
  // Home directory of the agent's own user.
  std::string home;
  // What ranks run as.
  RunAs user;
  // Only for ranks in containers, see ContainerContext.
  uint32_t own_uid = 0;
  uint32_t own_gid = 0;
  std::string state;
  ContainerHost container_host;
  // What the profile of the Habana software on this node sets, in order.
  std::vector<v1::EnvAssignment> profile;
  // The cards of the node, for as long as this is used; null: none are known.
  const v1::DeviceInventory* devices = nullptr;
  // Time until the shim stops its ranks by itself unless it is renewed. Zero: never.
  std::chrono::milliseconds lease{0};
  // Test hook, passed on to the shim: the end of this rank is never believed.
  std::optional<uint32_t> fake_unkillable_rank;
};

// Environment of a rank, lowest layer first, the later wins:
//   1. `context.environ` without what belongs to the agent's own service (IsServiceOwned), without
//      PWD and OLDPWD, and without MASTER_ADDR and MASTER_PORT, which come with ShimRun; for
//      another user than the agent's own also without what belongs to the agent's user
//      (IsPersonal), and with HOME, USER, LOGNAME and SHELL of that other user;
//      On nodes with cards then `context.profile`, as far as layer 1 does not set its names; what
//      is left of that in the end is told as `filled`;
//   2. PYTHONUNBUFFERED=1 unless layer 1 sets it;
//   3. `launch.env` in order. A variable part is its value so far in this same environment, else
//      empty; the home part is the home directory of the user; literals are copied byte for byte;
//   4. PWD, the working directory; the rank's own `RankSpec.env`; MUSTER_JOB_ID, MUSTER_ATTEMPT,
//      MUSTER_NODE.
// Names are unique and in byte order. argv is `launch.argv`, with `--local_rank=N` inserted before
// `local_rank_argument_index` unless that is 0. The directories of the attempt, the leases and the
// cgroup are left empty: the launcher fills them.
//
// In containers (`launch.container`) a rank has what is from 2 on, without PWD, and below it the
// environment of the image; layer 1 is the engine's. A variable part that nothing before has set is
// then looked up in layer 1, with a warning: the image is not known here.
//
// Errors: kNotFound and kFailedPrecondition: the node lacks what the container needs.
// kInvalidArgument, naming the variable, when expanding makes a value or the environment
// much longer than anything that could be executed. What is only a little too long is the shim's to
// refuse, which knows the limits of its machine.
absl::StatusOr<internal::ShimBootstrap> ComposeBootstrap(const v1::LaunchSpec& launch,
                                                         const ComposeContext& context);

// What the commands of a container engine run with for ranks of `user`: layer 1 of above.
VariableMap EngineEnvironment(const std::vector<std::string>& environ, const RunAs& user);

// Puts every rank where its placement says: processors and memory node, and OMP_NUM_THREADS into
// its environment, which stays in order, unless the rank has one already. Placements of ranks that
// are none of `bootstrap` do not count.
void ApplyPlacements(std::span<const v1::RankPlacement> placements,
                     internal::ShimBootstrap* bootstrap);

// Name of the check that an error of ComposeBootstrap is told as.
std::string CheckOfComposing(const absl::Status& error);

// MASTER_ADDR and MASTER_PORT for ShimRun.
internal::ShimRun ComposeRun(const v1::Rendezvous& rendezvous);

// The variables of the first rank as its program gets them, but for what its image adds: in a
// container those of the container, and not those of the engine's client.
VariableMap VariablesOfFirstRank(const v1::LaunchSpec& launch,
                                 const internal::ShimBootstrap& bootstrap);
// Value of one of them; empty when there is none.
std::string VariableOfFirstRank(const v1::LaunchSpec& launch,
                                const internal::ShimBootstrap& bootstrap, std::string_view name);

// True for variables that mean something to one user only: directories, sessions and sockets of a
// login.
bool IsPersonal(std::string_view name);

// True for variables that describe the agent's own service (systemd's socket, watchdog, journal and
// directories; settings of gRPC) and mean nothing, or harm, in a rank.
bool IsServiceOwned(std::string_view name);

}  // namespace muster
