// Case and canonical composition of code points, as Python's str and unicodedata have them.
// The tables are made by generate_unicode.py.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace krill::language {

enum Trait : uint8_t {
  kUpperCase = 1,
  kLowerOrTitleCase = 2,
  kCased = 4,
  kCaseIgnorable = 8,  // skipped when the lower case of a sigma depends on its neighbours
  kUnsettled = 16,     // normal form C may replace it, or join it to the character before
};

struct Traits {
  uint8_t flags;
  uint8_t combining;  // canonical combining class
};

struct Lower {
  uint32_t point;
  uint32_t lower;
};

struct Decomposition {
  uint32_t point;
  uint32_t first;
  uint32_t second;  // 0 = there is none
};

struct Composition {
  uint32_t first;
  uint32_t second;
  uint32_t point;
};

constexpr uint32_t kUnicodePage = 128;
extern const uint8_t kUnicodePageOf[0x110000 / kUnicodePage];
extern const char kUnicodePages[];
extern const Traits kUnicodeTraits[];
extern const Lower kLower[];
extern const size_t kLowerSize;
extern const Decomposition kDecompositions[];
extern const size_t kDecompositionsSize;
extern const Composition kCompositions[];
extern const size_t kCompositionsSize;

inline Traits traits_of(uint32_t point) {
  const size_t page = kUnicodePageOf[point / kUnicodePage];
  return kUnicodeTraits[kUnicodePages[page * kUnicodePage + point % kUnicodePage] - '#'];
}

struct Decoded {
  uint32_t point;
  uint32_t length;
};

constexpr uint32_t kNoPoint = 0xfffd;  // stands for a byte that is not UTF-8; it has no traits

// The character at the front of at least one byte.
inline Decoded decode(const uint8_t* text, size_t size) {
  const auto bits = [&](size_t place) { return uint32_t{text[place]} & 0x3f; };
  const auto continues = [&](size_t place) { return place < size && (text[place] & 0xc0) == 0x80; };
  const uint32_t lead = text[0];
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xc2 || lead > 0xf4 || !continues(1)) return {kNoPoint, 1};
  if (lead < 0xe0) return {(lead & 0x1f) << 6 | bits(1), 2};
  if (!continues(2)) return {kNoPoint, 1};
  if (lead < 0xf0) {
    const uint32_t point = (lead & 0x0f) << 12 | bits(1) << 6 | bits(2);
    return point < 0x800 || (point >= 0xd800 && point < 0xe000) ? Decoded{kNoPoint, 1} : Decoded{point, 3};
  }
  if (!continues(3)) return {kNoPoint, 1};
  const uint32_t point = (lead & 7) << 18 | bits(1) << 12 | bits(2) << 6 | bits(3);
  return point < 0x10000 || point > 0x10ffff ? Decoded{kNoPoint, 1} : Decoded{point, 4};
}

inline void append(std::vector<uint8_t>& out, uint32_t point) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<uint8_t>(byte)); };
  if (point < 0x80) return put(point);
  if (point < 0x800) {
    put(0xc0 | point >> 6);
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3f));
  } else {
    put(0xf0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3f));
    put(0x80 | (point >> 6 & 0x3f));
  }
  put(0x80 | (point & 0x3f));
}

}  // namespace krill::language
