// A hash for tables that live as long as one document: fast for a few bytes, never written anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace krill::quality {

inline uint64_t mix(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t load8(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, 8);
  return word;
}

inline uint64_t load_up_to_8(const uint8_t* bytes, size_t size) {
  if (size >= 4) {
    uint32_t front, back;
    std::memcpy(&front, bytes, 4);
    std::memcpy(&back, bytes + size - 4, 4);
    return uint64_t{front} << 32 | back;
  }
  if (size == 0) return 0;
  return uint64_t{bytes[0]} << 16 | uint64_t{bytes[size / 2]} << 8 | bytes[size - 1];
}

constexpr uint64_t kSaltA = 0xa0761d6478bd642full;
constexpr uint64_t kSaltB = 0xe7037ed1a0b428dbull;

inline uint64_t quick_hash(const uint8_t* bytes, size_t size) {
  uint64_t state = kSaltA ^ size;
  size_t left = size;
  for (; left > 16; left -= 16, bytes += 16) state = mix(load8(bytes) ^ kSaltB, load8(bytes + 8) ^ state);
  if (left > 8) return mix(mix(load8(bytes) ^ kSaltB, load8(bytes + left - 8) ^ state), kSaltA);
  return mix(mix(load_up_to_8(bytes, left) ^ kSaltB, state), kSaltA);
}

inline bool equal_bytes(const uint8_t* a, const uint8_t* b, size_t size) {
  // Most of what is compared is short, and a call of memcmp costs more than the comparison.
  size_t left = size;
  for (; left >= 8; left -= 8, a += 8, b += 8)
    if (load8(a) != load8(b)) return false;
  return load_up_to_8(a, left) == load_up_to_8(b, left);
}

}  // namespace krill::quality
