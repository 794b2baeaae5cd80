// Strings as Python holds them, as UTF-8: one that is ASCII is so already.
//
// In: code points of one, two or four bytes. Out: UTF-8. Held in memory: the caller's buffer, which is used
// again for the next string; CPython's own function would keep the UTF-8 for as long as the string lives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "growing_buffer.hpp"

namespace krill::text {

struct WideString {
  const void* data;
  size_t size;    // in code points
  uint8_t width;  // bytes of each: 1 (up to U+00FF), 2 or 4
  bool is_ascii;
};

struct Utf8 {
  const uint8_t* data;
  size_t size;
  size_t readable;  // bytes from `data` on that may be read
};

// In `buffer` unless it is ASCII. Throws std::invalid_argument for a lone surrogate.
Utf8 to_utf8(const WideString& string, GrowingBuffer<uint8_t>& buffer);

}  // namespace krill::text
