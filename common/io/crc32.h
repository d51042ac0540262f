// CRC-32 as zlib and Ethernet use it (polynomial 0xEDB88320, reflected, inverted at both ends).
// Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster {

// CRC of `bytes`; of nothing it is 0. To go on with more bytes pass the CRC so far as `seed`.
uint32_t Crc32(std::string_view bytes, uint32_t seed = 0);

}  // namespace muster
