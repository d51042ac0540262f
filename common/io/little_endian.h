// Fixed-width integers as little-endian bytes, for formats on disk. Pure.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace muster {

// Writes `value` to the sizeof(T) bytes at `to`.
template <typename T>
void StoreLittleEndian(char* to, T value) {
  static_assert(std::is_integral_v<T>);
  static_assert(std::endian::native == std::endian::little, "swap here for another machine");
  std::memcpy(to, &value, sizeof(value));
}

// Reads a T from the sizeof(T) bytes at `from`.
template <typename T>
T LoadLittleEndian(const char* from) {
  static_assert(std::is_integral_v<T>);
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace muster
