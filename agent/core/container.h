// Ranks in containers: what a container engine is told for each rank, so that the job's program
// runs in the image as it would on the node. Pure: what the node has is an argument. Nothing of the
// job's environment is ever part of a command line, and nothing of the agent's is given to a
// container.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/core/user_gate.h"
#include "common/base/ids.h"
#include "muster/internal/shim.pb.h"
#include "muster/v1/types.pb.h"

namespace muster {

// A limit that there is not.
inline constexpr uint64_t kNoLimit = UINT64_MAX;

// What the node has for containers.
struct ContainerHost {
  struct Engine {
    // Absolute path of its program; empty: the node has none.
    std::string program;
    // It has what `--init` needs.
    bool has_init = false;
    // Why it cannot be used, in words, with what to do; empty: it can, or was not asked.
    std::string refusal;
  };
  Engine docker;
  Engine podman;
  // Device nodes of cards and of host network adapters that exist, absolute, sorted.
  std::vector<std::string> device_nodes;
  // Not empty: the cards are simulated, and their device nodes are plain files below this folder.
  std::string sysroot;
  // Hard limits of the agent, which ranks can have.
  uint64_t open_files = 0;
  uint64_t locked_bytes = 0;
  // The agent may go beyond them.
  bool may_raise_limits = false;
};

// Sorted by name.
using VariableMap = std::map<std::string, std::string, std::less<>>;

// What is the same for all ranks of a node.
struct ContainerContext {
  AttemptId attempt;
  NodeId node;
  RunAs user;
  // User that the agent is, which is the ranks' when `user.self`.
  uint32_t own_uid = 0;
  uint32_t own_gid = 0;
  // Tells the containers of this agent from those of others on the machine.
  std::string state;
  ContainerHost host;
  // The cards of the node; null: none are known.
  const v1::DeviceInventory* devices = nullptr;
  // What the engine runs with: the agent's environment, as the ranks' user has it.
  VariableMap engine_env;
};

struct ChosenEngine {
  internal::ShimEngine engine;
  // What the user should know of the choice; empty: nothing.
  std::string warning;
};

// The engine for `launch.container`: the one that it names, else the first of docker and podman
// that works. NOT_FOUND: the node has none that does, with the reason of each.
absl::StatusOr<ChosenEngine> ChooseEngine(const v1::LaunchSpec& launch,
                                          const ContainerContext& context);

// Puts into `env` what decides on the cards of a container, whatever the job says. Returns a
// warning when the job said something else; empty: nothing.
std::string SetCardVariables(const v1::LaunchSpec& launch, VariableMap& env);

// Adds to `env`, the variables of a rank's container, those that containers need besides.
void AddContainerDefaults(VariableMap& env);

// Turns `rank`, whose argv is the job's, into a client of `engine`. `env`: the variables of its
// container. INVALID_ARGUMENT, FAILED_PRECONDITION: in words for the user.
absl::Status Contain(const v1::LaunchSpec& launch, const ContainerContext& context,
                     const internal::ShimEngine& engine, const VariableMap& env,
                     internal::ShimRank& rank);

// The variables that a rank gets from `Contain`; not those of the engine's client, nor of the
// image.
VariableMap VariablesInContainer(const v1::LaunchSpec& launch, const internal::ShimRank& rank);

// A limit that a rank's container is given; nothing when it is not.
std::optional<uint64_t> LimitInContainer(const v1::LaunchSpec& launch,
                                         const internal::ShimRank& rank, std::string_view name);

// True for variables that the engine's client, its helpers or what they are linked with heed: the
// job's value of such a one reaches the container past the client.
bool IsHeededByEngines(std::string_view name);

}  // namespace muster
