// How willing the kernel is to kill this process when memory runs out (/proc/self/oom_score_adj,
// -1000 to 1000, proc(5)). Needs the standard library only.
#pragma once

#include <optional>

namespace muster {

// Nothing where there is no /proc.
std::optional<int> ReadOomScore();

// False when it may not be: to lower it takes CAP_SYS_RESOURCE.
bool WriteOomScore(int score);

}  // namespace muster
