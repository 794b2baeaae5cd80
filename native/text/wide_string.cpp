#include "text/wide_string.hpp"

#include <algorithm>
#include <stdexcept>

namespace krill::text {

namespace {

// Characters looked at together: most text is mostly ASCII, also where a single character makes it wide.
constexpr size_t kPoints = 16;

template <class Unit>
uint8_t* write_point(Unit point, uint8_t* out) {
  const auto tail = [](uint32_t bits) { return static_cast<uint8_t>(0x80 | (bits & 0x3f)); };
  const uint32_t wide = point;
  if (wide < 0x80) {
    *out++ = static_cast<uint8_t>(wide);
    return out;
  }
  if (wide < 0x800) {
    *out++ = static_cast<uint8_t>(0xc0 | wide >> 6);
  } else {
    if (wide < 0x10000) {
      if (wide >= 0xd800 && wide < 0xe000) throw std::invalid_argument("a string has a lone surrogate");
      *out++ = static_cast<uint8_t>(0xe0 | wide >> 12);
    } else {
      *out++ = static_cast<uint8_t>(0xf0 | wide >> 18);
      *out++ = tail(wide >> 12);
    }
    *out++ = tail(wide >> 6);
  }
  *out++ = tail(wide);
  return out;
}

template <class Unit>
uint8_t* write_points(const Unit* points, size_t size, uint8_t* out) {
  size_t at = 0;
  for (; size - at >= kPoints; at += kPoints) {
    const Unit* const block = points + at;
    Unit all = 0;
    for (size_t i = 0; i < kPoints; ++i) all = static_cast<Unit>(all | block[i]);
    if (all < 0x80) {
      for (size_t i = 0; i < kPoints; ++i) out[i] = static_cast<uint8_t>(block[i]);
      out += kPoints;
    } else {
      for (size_t i = 0; i < kPoints; ++i) out = write_point(block[i], out);
    }
  }
  for (; at < size; ++at) out = write_point(points[at], out);
  return out;
}

}  // namespace

Utf8 to_utf8(const WideString& string, GrowingBuffer<uint8_t>& buffer) {
  if (string.is_ascii) return {static_cast<const uint8_t*>(string.data), string.size, string.size};
  // A Latin letter takes two bytes, a character of two bytes up to three.
  const size_t most = string.width == 4 ? 4 : size_t{1} + string.width;
  buffer.truncate(0);
  uint8_t* const begin = buffer.room(most * string.size + kPoints);
  uint8_t* end = begin;
  switch (string.width) {
    case 1: end = write_points(static_cast<const uint8_t*>(string.data), string.size, begin); break;
    case 2: end = write_points(static_cast<const uint16_t*>(string.data), string.size, begin); break;
    default: end = write_points(static_cast<const uint32_t*>(string.data), string.size, begin);
  }
  buffer.set_end(end);
  const auto size = static_cast<size_t>(end - begin);
  return {begin, size, size + kPoints};
}

}  // namespace krill::text
