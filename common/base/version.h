// Version of the programs and of the protocol between them.
#pragma once

#include <cstdint>

namespace muster {

inline constexpr char kVersion[] = "0.1.0";
inline constexpr uint32_t kProtocolMajor = 1;
inline constexpr uint32_t kProtocolMinor = 0;

}  // namespace muster
