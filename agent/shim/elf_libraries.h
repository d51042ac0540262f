// Finds shared libraries as the dynamic loader would for a rank, without running anything: the
// directories of LD_LIBRARY_PATH, the run paths that a library names, and those of the system.
// Reads ELF files of 64 bits, little endian, and believes nothing in them: every offset is checked,
// sizes are bounded. May hang on a file server; for processes that can be killed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::shim {

// What the dynamic section of a library says.
struct ElfNeeds {
  std::vector<std::string> needed;
  // RUNPATH, or RPATH where there is none; with $ORIGIN as written.
  std::string run_path;
};

// Reads the head of an ELF file that `bytes` holds as a whole; nothing when it is none.
std::optional<ElfNeeds> ParseElfNeeds(std::string_view bytes);

struct LibrarySearch {
  // Value of LD_LIBRARY_PATH; relative entries count from `working_directory`.
  std::string library_path;
  std::string working_directory;
  // Put in front of the system's own directories, for tests.
  std::string sysroot;
};

struct FoundLibrary {
  // Empty: not found.
  std::string file;
  // Libraries that are needed and not found, `libx.so.1 (needed by liby.so)`; the library itself
  // first when it is not there or cannot be used.
  std::vector<std::string> missing;
};

// `name` and all that it needs, and so on.
FoundLibrary FindLibrary(const std::string& name, const LibrarySearch& search);

}  // namespace muster::shim
