// The class of a character in the patterns that cut text into words, and decoding of UTF-8. The tables hold
// the classes that Hugging Face's regex engine assigns: see generate_char_classes.py.
#pragma once

#include <cstddef>
#include <cstdint>

namespace krill::text {

enum class CharClass : uint8_t {
  other,    // none of these: punctuation, symbols, controls, bytes that are not UTF-8
  mark,     // \p{M}
  letter,   // \p{Lm} and \p{Lo}: letters that are neither upper nor lower case
  upper,    // \p{Lu} and \p{Lt}
  lower,    // \p{Ll}
  number,   // \p{N}
  space,    // \s but \r and \n
  newline,  // \r and \n
};

inline bool is_letter(CharClass kind) { return kind >= CharClass::letter && kind <= CharClass::lower; }
inline bool is_number(CharClass kind) { return kind == CharClass::number; }
inline bool is_space(CharClass kind) { return kind >= CharClass::space; }
inline bool is_other(CharClass kind) { return kind <= CharClass::mark; }  // [^\s\p{L}\p{N}]

constexpr uint32_t kCharPage = 128;
extern const uint8_t kCharPageOf[0x110000 / kCharPage];
extern const char kCharPages[];

// The digits of the tables are their own class once the high bits are gone.
inline CharClass class_of(uint32_t point) {
  return static_cast<CharClass>(kCharPages[kCharPageOf[point / kCharPage] * kCharPage + point % kCharPage] &
                                7);
}

// Pages are numbered as they first occur, so that of ASCII is the first.
inline CharClass class_of_ascii(uint8_t byte) { return static_cast<CharClass>(kCharPages[byte] & 7); }

struct Character {
  CharClass kind;
  uint8_t length;
  bool well_formed;
};

// The character at the front of at least one byte. Of ill-formed UTF-8 each maximal subpart, as
// bytes.decode("utf-8", "replace") counts them, is one character and `other`.
inline Character character_at(const uint8_t* text, size_t size) {
  constexpr auto broken = [](uint8_t length) { return Character{CharClass::other, length, false}; };
  const auto continues = [&](size_t place) { return place < size && (text[place] & 0xc0) == 0x80; };
  const uint32_t lead = text[0];
  if (lead < 0x80) return {class_of_ascii(text[0]), 1, true};
  if (lead < 0xc2 || lead > 0xf4 || !continues(1)) return broken(1);
  const uint32_t second = text[1] & 0x3f;
  if (lead < 0xe0) return {class_of((lead & 0x1f) << 6 | second), 2, true};
  if (lead < 0xf0) {
    // The second byte also rules out overlong forms and surrogates.
    if ((lead == 0xe0 && second < 0x20) || (lead == 0xed && second >= 0x20)) return broken(1);
    if (!continues(2)) return broken(2);
    return {class_of((lead & 0x0f) << 12 | second << 6 | (text[2] & 0x3fu)), 3, true};
  }
  if ((lead == 0xf0 && second < 0x10) || (lead == 0xf4 && second >= 0x10)) return broken(1);
  if (!continues(2)) return broken(2);
  if (!continues(3)) return broken(3);
  return {class_of((lead & 7) << 18 | second << 12 | (text[2] & 0x3fu) << 6 | (text[3] & 0x3fu)), 4, true};
}

}  // namespace krill::text
