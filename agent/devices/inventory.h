// The cards of this node: read from sysfs, completed by libhlml where that is installed, and asked
// of hl-smi only where sysfs shows none. Blocks at most for the limits; any thread. Without cards,
// and without hl-smi in PATH, it reads two folders that are not there and starts nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/io/file_holders.h"
#include "muster/v1/types.pb.h"

namespace muster {

struct DeviceLimits {
  size_t cards = 256;
  std::chrono::milliseconds hl_smi{5000};
  std::chrono::milliseconds hlml{3000};
  HolderLimits holders;
};

struct DeviceOptions {
  // Put before all paths of sysfs and /dev: a simulated node. hl-smi and libhlml are then only
  // looked for in its usr/bin and usr/lib/habanalabs. Empty: this machine.
  std::string sysroot;
  // The agent's environment, `NAME=value`: PATH, LD_LIBRARY_PATH, HABANA_VISIBLE_MODULES,
  // HABANA_VISIBLE_DEVICES.
  std::vector<std::string> environ;
  // The agent's program, which asks libhlml as a child process; empty: the library is not asked.
  std::string own_program;
  // Asks neither hl-smi nor libhlml: cheap, to look again and again.
  bool sysfs_only = false;
  // Where processes are looked for.
  std::string proc = "/proc";
  DeviceLimits limits;
};

// The cards that this agent may use, by module id, and everything that is wrong with cards.
// UsableModules (cards.h) tells which are offered.
v1::DeviceInventory ReadInventory(const DeviceOptions& options);

// A process that has a card open.
struct CardHolder {
  uint32_t module_id = 0;
  v1::DeviceHolder holder;
};

// Who has the device nodes of the inventory open, as far as this agent may see.
std::vector<CardHolder> FindHolders(const DeviceOptions& options,
                                    const v1::DeviceInventory& inventory);

// What the cards of `known` say now, holders included; one per card. What no source tells stays
// unset. For telemetry: may take as long as the limits.
std::vector<v1::DeviceReading> ReadCards(const DeviceOptions& options,
                                         const v1::DeviceInventory& known);

}  // namespace muster
