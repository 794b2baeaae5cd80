// Sets of characters: whether a text has one of them, and a text without them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "check.hpp"
#include "growing_buffer.hpp"

namespace krill::text {

// One bit for each code point, which the caller keeps.
class PointSet {
 public:
  static constexpr size_t kPoints = 0x110000;

  explicit PointSet(std::span<const uint8_t> bits) : bits_(bits.data()) {
    expect(bits.size() == kPoints / 8, "a set of characters has a bit for each code point");
  }

  bool has(uint32_t point) const { return (bits_[point >> 3] >> (point & 7) & 1) != 0; }

  bool any_in(const uint8_t* text, size_t size) const {
    for (const uint8_t* at = text; at < text + size;)
      if (has(next(at, text + size))) return true;
    return false;
  }

  // Appends the text without the characters of the set; how many those were.
  size_t remove_from(const uint8_t* text, size_t size, GrowingBuffer<uint8_t>& out) const {
    size_t removed = 0;
    const uint8_t* const end = text + size;
    const uint8_t* begin = text;  // of what is not written yet
    for (const uint8_t* at = text; at < end;) {
      const uint8_t* const here = at;
      if (!has(next(at, end))) continue;
      out.append(begin, static_cast<size_t>(here - begin));
      begin = at;
      ++removed;
    }
    out.append(begin, static_cast<size_t>(end - begin));
    return removed;
  }

 private:
  // The character at `at`, which moves on; a byte that begins none is U+FFFD.
  static uint32_t next(const uint8_t*& at, const uint8_t* end) {
    const uint8_t lead = *at++;
    if (lead < 0x80) return lead;
    const size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc0 || static_cast<size_t>(end - at) < more) return 0xfffd;
    uint32_t point = lead & (0x3fu >> more);
    for (size_t byte = 0; byte < more; ++byte) point = point << 6 | (at[byte] & 0x3fu);
    at += more;
    return point < kPoints ? point : 0xfffd;
  }

  const uint8_t* bits_;
};

}  // namespace krill::text
