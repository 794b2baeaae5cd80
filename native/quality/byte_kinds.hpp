// Kinds of bytes, which classify the chunk that they are in, and the length of a run of letters.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quality/quick_hash.hpp"

namespace krill::quality {

enum ByteKind : uint8_t {
  kLetterByte = 1,  // ASCII
  kPlainByte = 2,   // anything else that never joins two words
  kDotByte = 4,     // a full stop: in addresses, between words
  kJointByte = 8,   // other bytes that may join two words
  kSpaceByte = 16,
  kHighByte = 32,  // of a character beyond ASCII
};

inline constexpr std::array<uint8_t, 256> kByteKinds = [] {
  std::array<uint8_t, 256> kinds{};
  for (size_t byte = 0; byte < 256; ++byte) {
    const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    const bool space = byte == ' ' || (byte >= 0x09 && byte <= 0x0d) || (byte >= 0x1c && byte <= 0x1f);
    kinds[byte] = letter ? kLetterByte : space ? kSpaceByte : byte >= 0x80 ? kHighByte : kPlainByte;
  }
  for (const char joint : std::string_view("+-*^,:<>=/~")) kinds[static_cast<uint8_t>(joint)] = kJointByte;
  kinds['.'] = kDotByte;
  return kinds;
}();

inline bool is_letter_byte(uint8_t byte) { return kByteKinds[byte] == kLetterByte; }

// How many ASCII letters stand at the front: eight bytes at a time while there are eight.
inline size_t letters_at_front(const uint8_t* text, size_t size) {
  constexpr uint64_t kEach = 0x0101010101010101ull;
  constexpr uint64_t kTop = kEach * 0x80;
  size_t at = 0;
  if constexpr (std::endian::native == std::endian::little) {
    for (; at + 8 <= size; at += 8) {
      const uint64_t bytes = load8(text + at);
      const uint64_t low = (bytes | kEach * 0x20) & ~kTop;
      // The top bit of each byte: at least `a`, beyond `z`. Sums of 7 bits each never carry over.
      const uint64_t from_a = low + kEach * (0x80 - 'a');
      const uint64_t beyond_z = low + kEach * (0x7f - 'z');
      const uint64_t others = ~(from_a & ~beyond_z & ~bytes) & kTop;
      if (others != 0) return at + static_cast<size_t>(std::countr_zero(others)) / 8;
    }
  }
  while (at < size && is_letter_byte(text[at])) ++at;
  return at;
}

}  // namespace krill::quality
