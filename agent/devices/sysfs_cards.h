// The Gaudi cards that the kernel driver shows in sysfs. Reads only, never one of the files that
// act when they are written. Blocks as long as the driver does.
#pragma once

#include <cstddef>
#include <string>

#include "muster/v1/types.pb.h"

namespace muster {

// Fills `devices`, in order of index, and `problems` with what could not be read. Cards whose
// module id is not known are told as problems and are not among the devices: nobody can ask for
// them by anything that stays the same. `root` is put before all paths; empty: this machine.
// Accelerators of other makers, and Goya cards, are passed over.
v1::DeviceInventory ReadSysfsCards(const std::string& root, size_t most_cards);

// The file in which the driver says the state of a card that ReadSysfsCards found. Pure.
std::string StatusPathOf(const std::string& root, const v1::Device& device);

// "the card of index 3 at 0000:b3:00.0". Pure.
std::string NameOfCard(const v1::Device& device);

}  // namespace muster
