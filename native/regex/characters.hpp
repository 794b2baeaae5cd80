// Characters of UTF-8 by place. Whatever the bytes are, nothing beyond the text is read, and every step is at
// least one byte.
#pragma once

#include <cstddef>
#include <cstdint>

#include "regex/code_set.hpp"

namespace krill::regex {

inline size_t length_at(const uint8_t* text, size_t size, size_t at) {
  const uint8_t lead = text[at];
  const size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return length <= size - at ? length : 1;
}

inline uint32_t point_at(const uint8_t* text, size_t at, size_t length) {
  const uint32_t lead = text[at];
  const auto tail = [&](size_t place) { return text[at + place] & 0x3fu; };
  switch (length) {
    case 1: return lead < 0x80 ? lead : 0xfffd;
    case 2: return (lead & 0x1f) << 6 | tail(1);
    case 3: return (lead & 0x0f) << 12 | tail(1) << 6 | tail(2);
    default: {
      const uint32_t point = (lead & 7) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3);
      return point <= kLastPoint ? point : 0xfffd;
    }
  }
}

inline size_t previous_place(const uint8_t* text, size_t at) {
  size_t start = at - 1;
  while (start > 0 && at - start < 4 && (text[start] & 0xc0) == 0x80) --start;
  return start;
}

}  // namespace krill::regex
