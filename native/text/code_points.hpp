// Code points to UTF-8.
//
// In: code points of four bytes. Out: UTF-8, behind what a buffer holds. Held in memory: the caller's buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "growing_buffer.hpp"

namespace krill::text {

struct Utf8 {
  const uint8_t* data;
  size_t size;
  size_t readable;  // bytes from `data` on that may be read
};

// Bytes behind the buffer's end that it has room for once something was appended.
inline constexpr size_t kSpareBytes = 16;

// Throws std::invalid_argument for a lone surrogate.
void append_utf8(std::span<const uint32_t> points, GrowingBuffer<uint8_t>& out);

}  // namespace krill::text
