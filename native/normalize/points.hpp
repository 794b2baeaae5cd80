// Code points of UTF-8, read without trust in the text: any bytes are some sequence of characters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "growing_buffer.hpp"

namespace krill::normalize {

// What stands for bytes that are no character; tables have a page for it, which says nothing.
constexpr uint32_t kNoPoint = 0x110000;
constexpr uint32_t kPage = 64;
constexpr size_t kPageCount = kNoPoint / kPage + 1;

struct Point {
  uint32_t value;
  uint32_t length;
};

// The character at `at`, which is below `size`. Well-formed text gives its code points; in other text a lead
// byte takes the bytes after it for its own, and what remains are characters of one byte.
inline Point point_at(const uint8_t* text, size_t size, size_t at) {
  const uint8_t* p = text + at;
  const size_t room = size - at;
  const uint32_t lead = p[0];
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xc0 || room < 2) return {kNoPoint, 1};
  if (lead < 0xe0) return {(lead & 0x1f) << 6 | (p[1] & 0x3fu), 2};
  if (room < 3) return {kNoPoint, 1};
  if (lead < 0xf0) return {(lead & 0x0f) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu), 3};
  if (room < 4) return {kNoPoint, 1};
  const uint32_t value = (lead & 0x07) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
  return {std::min(value, kNoPoint), 4};
}

// Writes a code point and returns its end; there is room for four bytes.
inline uint8_t* write_point(uint8_t* out, uint32_t point) {
  const auto low = [&](uint32_t shift) { return static_cast<uint8_t>(0x80 | (point >> shift & 0x3f)); };
  if (point < 0x80) {
    *out++ = static_cast<uint8_t>(point);
  } else if (point < 0x800) {
    *out++ = static_cast<uint8_t>(0xc0 | point >> 6);
    *out++ = low(0);
  } else if (point < 0x10000) {
    *out++ = static_cast<uint8_t>(0xe0 | point >> 12);
    *out++ = low(6);
    *out++ = low(0);
  } else {
    *out++ = static_cast<uint8_t>(0xf0 | point >> 18);
    *out++ = low(12);
    *out++ = low(6);
    *out++ = low(0);
  }
  return out;
}

// Passes over long stretches in which no character matters to a step. A byte is `plain` if it continues a
// character or begins only characters that don't matter; sixteen at a time are looked at without a branch.
class PlainBytes {
 public:
  PlainBytes() = default;
  // `matters(point)` is asked about every code point.
  template <class Matters>
  explicit PlainBytes(Matters matters) {
    for (uint32_t byte = 0; byte < 256; ++byte) not_plain_[byte] = 1;
    for (uint32_t byte = 0; byte < 0x80; ++byte) not_plain_[byte] = matters(byte);
    for (uint32_t byte = 0x80; byte < 0xc0; ++byte) not_plain_[byte] = 0;
    for (uint32_t byte = 0xc2; byte < 0xe0; ++byte) not_plain_[byte] = any((byte & 0x1f) << 6, 6, matters);
    for (uint32_t byte = 0xe0; byte < 0xf0; ++byte) not_plain_[byte] = any((byte & 0x0f) << 12, 12, matters);
    for (uint32_t byte = 0xf0; byte < 0xf5; ++byte) not_plain_[byte] = any((byte & 0x07) << 18, 18, matters);
    for (uint32_t byte = 0; byte < 0x80; ++byte) ascii_ = ascii_ && not_plain_[byte] == 0;
  }

  static constexpr size_t kBlock = 16;

  // From the beginning of a character on: the beginning of the last character that is known not to matter, or
  // `at`.
  size_t pass(const uint8_t* text, size_t size, size_t at) const {
    const size_t begin = at;
    if (ascii_) {
      while (size - at >= 2 * kBlock && is_ascii(text + at)) at += 2 * kBlock;
    }
    while (size - at >= kBlock && is_plain(text + at)) {
      at += kBlock;
      if (ascii_) {
        while (size - at >= 2 * kBlock && is_ascii(text + at)) at += 2 * kBlock;
      }
    }
    if (at == begin) return at;
    // The last character may go on behind the block.
    size_t last = at - 1;
    while (last > begin && at - last < 4 && (text[last] & 0xc0) == 0x80) --last;
    return last;
  }

  bool plain(uint8_t byte) const { return not_plain_[byte] == 0; }

 private:
  template <class Matters>
  static bool any(uint32_t first, uint32_t bits, Matters matters) {
    for (uint32_t point = first; point < first + (1u << bits); ++point) {
      if (point < kNoPoint && matters(point)) return true;
    }
    return false;
  }

  static bool is_ascii(const uint8_t* p) {
    uint64_t words[4];
    std::memcpy(words, p, sizeof words);
    return ((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080u) == 0;
  }

  bool is_plain(const uint8_t* p) const {
    uint8_t any = 0;
    for (size_t i = 0; i < kBlock; ++i) any |= not_plain_[p[i]];
    return any == 0;
  }

  uint8_t not_plain_[256] = {};
  bool ascii_ = true;
};

// Calls `work(at, point)` for every character that may matter; all that do are among them. `work` returns
// whether to go on.
template <class Work>
void visit(const PlainBytes& plain, const uint8_t* text, size_t size, Work&& work) {
  size_t at = 0;
  size_t next_look = 0;
  while (at < size) {
    if (at >= next_look) {
      at = plain.pass(text, size, at);
      next_look = at + PlainBytes::kBlock;
    }
    const Point point = point_at(text, size, at);
    if (!work(at, point)) return;
    at += point.length;
  }
}

}  // namespace krill::normalize
