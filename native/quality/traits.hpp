// The traits of a character for the quality filters and the word splitter, and decoding of UTF-8. The tables
// are made by generate_traits.py from word_traits.py, where each trait is defined.
#pragma once

#include <cstddef>
#include <cstdint>

namespace krill::quality {

using Traits = uint32_t;

enum Trait : Traits {
  kSpace = 1u << 0,         // str.isspace
  kLineBreak = 1u << 1,     // str.splitlines
  kAlphabetic = 1u << 2,    // str.isalpha
  kAlphanumeric = 1u << 3,  // str.isalnum
  kDecimal = 1u << 4,       // \d
  kSymbol = 1u << 5,
  kTerminal = 1u << 6,
  kPunctuation = 1u << 7,
  kFrontMark = 1u << 8,
  kBackMark = 1u << 9,
  kMark = 1u << 10,
  kQuote = 1u << 11,
  kCurrency = 1u << 12,
  kPicture = 1u << 13,
  kMayBeLower = 1u << 14,
  kMayBeUpper = 1u << 15,
  kWideMark = 1u << 16,
  kHan = 1u << 17,
  kHiragana = 1u << 18,
};
constexpr Traits kLetter = kMayBeLower | kMayBeUpper;
constexpr Traits kUnspaced = kWideMark | kHan | kHiragana;

constexpr uint32_t kTraitPage = 128;
extern const uint32_t kTraitsOfAscii[];
extern const uint32_t kTraitsOfClass[];
extern const uint8_t kTraitPageOf[0x110000 / kTraitPage];
extern const uint8_t kTraitPages[];

inline Traits traits_of(uint32_t point) {
  if (point < 0x80) return kTraitsOfAscii[point];
  return kTraitsOfClass[kTraitPages[kTraitPageOf[point / kTraitPage] * kTraitPage + point % kTraitPage]];
}

inline bool is_continuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

struct Character {
  uint32_t point;
  uint8_t length;
};

// The character at the front of at least one byte. Text is UTF-8; an invalid byte is a character by
// itself, U+FFFD, so that nothing outside is read.
inline Character character_at(const uint8_t* text, size_t size) {
  const uint32_t lead = text[0];
  if (lead < 0x80) return {lead, 1};
  const uint8_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  constexpr Character kBroken{0xfffd, 1};
  if (lead < 0xc2 || lead > 0xf4 || length > size) return kBroken;
  uint32_t point = lead & (0xffu >> (length + 1));
  for (uint8_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return kBroken;
    point = point << 6 | (text[i] & 0x3fu);
  }
  return point > 0x10ffff ? kBroken : Character{point, length};
}

// The character that ends where at least one byte ends.
inline Character character_before(const uint8_t* text, size_t size) {
  size_t length = 1;
  while (length < 4 && length < size && is_continuation(text[size - length])) ++length;
  const Character found = character_at(text + size - length, length);
  return found.length == length ? found : Character{0xfffd, 1};
}

inline size_t count_characters(const uint8_t* text, size_t size) {
  size_t count = 0;
  for (size_t i = 0; i < size; ++i) count += !is_continuation(text[i]);
  return count;
}

}  // namespace krill::quality
