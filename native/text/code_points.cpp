#include "text/code_points.hpp"

#include <stdexcept>

namespace krill::text {

namespace {

// Characters looked at together: most text is mostly ASCII.
constexpr size_t kPoints = 16;
constexpr size_t kMostBytes = 4;  // of a character

uint8_t* write_point(uint32_t point, uint8_t* out) {
  const auto tail = [](uint32_t bits) { return static_cast<uint8_t>(0x80 | (bits & 0x3f)); };
  if (point < 0x80) {
    *out++ = static_cast<uint8_t>(point);
    return out;
  }
  if (point < 0x800) {
    *out++ = static_cast<uint8_t>(0xc0 | point >> 6);
  } else {
    if (point < 0x10000) {
      if (point >= 0xd800 && point < 0xe000) throw std::invalid_argument("a string has a lone surrogate");
      *out++ = static_cast<uint8_t>(0xe0 | point >> 12);
    } else {
      *out++ = static_cast<uint8_t>(0xf0 | point >> 18);
      *out++ = tail(point >> 12);
    }
    *out++ = tail(point >> 6);
  }
  *out++ = tail(point);
  return out;
}

}  // namespace

void append_utf8(std::span<const uint32_t> points, GrowingBuffer<uint8_t>& out) {
  uint8_t* end = out.room(kMostBytes * points.size() + kSpareBytes);
  size_t at = 0;
  for (; points.size() - at >= kPoints; at += kPoints) {
    const uint32_t* const block = points.data() + at;
    uint32_t all = 0;
    for (size_t i = 0; i < kPoints; ++i) all |= block[i];
    if (all < 0x80) {
      for (size_t i = 0; i < kPoints; ++i) end[i] = static_cast<uint8_t>(block[i]);
      end += kPoints;
    } else {
      for (size_t i = 0; i < kPoints; ++i) end = write_point(block[i], end);
    }
  }
  for (; at < points.size(); ++at) end = write_point(points[at], end);
  out.set_end(end);
}

}  // namespace krill::text
