// The flags of the launchers that `spawn` stands in for, gaudi_spawn.py and deepspeed, as far as
// they are not flags of ours by another name: what each means here, or what to use instead. Pure.
// docs/compat.md is the table of them, and a test holds the two together.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/cli/flags.h"

namespace muster {

struct SpawnFlags;

// Long names of every flag that the program of the other launcher documents, without dashes.
std::span<const std::string_view> GaudiSpawnFlagNames();
std::span<const std::string_view> DeepspeedFlagNames();

// Declares them. `out` and this must outlive `flags`.
class LauncherFlags {
 public:
  LauncherFlags(Flags& flags, SpawnFlags& out);
  LauncherFlags(const LauncherFlags&) = delete;
  LauncherFlags& operator=(const LauncherFlags&) = delete;

  // After parsing: what contradicts, and what follows from several flags.
  void Finish(std::vector<std::string>& problems);

 private:
  void AddBinding();
  void AddWhatIsNotNeeded();
  void AddWhatIsRefused();
  // Declares a flag that is understood and does nothing here.
  void Ignored(std::string_view name, std::string placeholder, Flags::Setter check,
               const std::string& why);
  // Declares a flag that cannot be honoured. Values in `defaults` mean that it was not given.
  void Refused(std::string_view name, std::string placeholder, std::vector<std::string> defaults,
               const std::string& hint);
  void Warn(std::string_view name, std::string_view why);

  Flags& flags_;
  SpawnFlags& out_;
  std::string rank_log_dir_;
  std::string bind_;
  bool bind_cores_ = false;
};

}  // namespace muster
