// The fuzz targets of what is read back from files and sockets beside job files: log frames, record
// logs and the text of ranks. Of each input the first byte says how it is cut into chunks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace muster {

std::string FuzzLogFrames(std::string_view bytes);
std::string FuzzRecordLog(std::string_view bytes);
std::string FuzzLabelledLines(std::string_view bytes);
// Of each input the second byte says what is filtered.
std::string FuzzLogFilter(std::string_view bytes);

std::vector<FuzzTarget> LogFuzzTargets();

}  // namespace muster
