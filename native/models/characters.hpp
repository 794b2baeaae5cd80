// Characters of UTF-8, by their first bytes alone: whatever the bytes are, nothing is read beyond them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace krill::models {

// How many bytes a character has that begins with `lead`, of which `left` are there.
inline size_t character_length(uint8_t lead, size_t left) {
  const size_t length = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return std::min(length, left);
}

inline size_t count_characters(const uint8_t* text, size_t size) {
  size_t count = 0;
  for (size_t i = 0; i < size; ++i) count += (text[i] & 0xc0) != 0x80;
  return count;
}

}  // namespace krill::models
