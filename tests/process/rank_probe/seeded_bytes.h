// A stream of bytes that a seed determines, and a hash of any bytes: what one side has written and
// the other has received is compared by one number. Pure; for tests only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::testing {

// xorshift64*, eight bytes a step.
class SeededBytes {
 public:
  explicit SeededBytes(uint64_t seed) : state_(seed * 2 + 1) {}

  // Fills `bytes` with the next `count` bytes of the stream, NUL and invalid UTF-8 among them.
  // `count` must be a multiple of 8 in every call but the last.
  void Fill(char* bytes, size_t count) {
    for (size_t i = 0; i < count; i += 8) {
      state_ ^= state_ >> 12;
      state_ ^= state_ << 25;
      state_ ^= state_ >> 27;
      uint64_t value = state_ * 2685821657736338717ull;
      for (size_t k = i; k < i + 8 && k < count; ++k, value >>= 8) {
        bytes[k] = static_cast<char>(value & 0xff);
      }
    }
  }

 private:
  uint64_t state_;
};

// The first `count` bytes of a seeded stream.
inline std::string SeededString(uint64_t seed, size_t count) {
  std::string bytes(count, '\0');
  SeededBytes(seed).Fill(bytes.data(), count);
  return bytes;
}

// FNV-1a, 64 bits; goes on from `seed`.
inline uint64_t Hash(std::string_view bytes, uint64_t seed = 14695981039346656037ull) {
  for (const char c : bytes) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return seed;
}

// Hash of the first `count` bytes of a seeded stream.
inline uint64_t HashOfSeededBytes(uint64_t seed, size_t count) {
  SeededBytes stream(seed);
  uint64_t hash = Hash({});
  char chunk[4096];
  while (count > 0) {
    const size_t size = count < sizeof(chunk) ? count : sizeof(chunk);
    stream.Fill(chunk, size);
    hash = Hash({chunk, size}, hash);
    count -= size;
  }
  return hash;
}

}  // namespace muster::testing
