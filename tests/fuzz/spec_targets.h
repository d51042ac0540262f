// The fuzz targets of coordinator/spec: each reads arbitrary bytes with one parser and checks what
// must hold for every input. Shared by the fuzzers and by the unit test that replays the corpora.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace muster {

std::string FuzzHostfile(std::string_view bytes);
std::string FuzzEnvFile(std::string_view bytes);
std::string FuzzJobYaml(std::string_view bytes);
// First line: the expression; the rest: the hostfile.
std::string FuzzSelection(std::string_view bytes);
std::string FuzzDuration(std::string_view bytes);
std::string FuzzSettings(std::string_view bytes);

std::vector<FuzzTarget> SpecFuzzTargets();

}  // namespace muster
