#include "tokenizer/characters.hpp"

#include <algorithm>

#include "text/utf8.hpp"
#include "tokenizer/word_ranges.hpp"

namespace krill::tokenizer {

namespace {

// A character and its bytes; `size` is 0 if there is none.
struct Character {
  uint32_t point = 0;
  size_t size = 0;
};

Character decode(const uint8_t* text, size_t size) {
  const uint32_t point = size == 1   ? text[0]
                         : size == 2 ? (text[0] & 0x1fu) << 6
                         : size == 3
                             ? (text[0] & 0x0fu) << 12 | (text[1] & 0x3fu) << 6
                             : (text[0] & 0x07u) << 18 | (text[1] & 0x3fu) << 12 | (text[2] & 0x3fu) << 6;
  return {size == 1 ? point : point | (text[size - 1] & 0x3fu), size};
}

Character first_character(const uint8_t* text, size_t size) {
  for (size_t length = 1; length <= std::min<size_t>(size, 4); ++length)
    if (text::utf8_prefix(text, length).bytes == length) return decode(text, length);
  return {};
}

Character last_character(const uint8_t* text, size_t size) {
  for (size_t length = 1; length <= std::min<size_t>(size, 4); ++length) {
    const uint8_t* const begin = text + size - length;
    const text::Utf8Extent whole = text::utf8_prefix(begin, length);
    if (whole.bytes == length && whole.chars == 1) return decode(begin, length);
  }
  return {};
}

bool is_whitespace(uint32_t point) {
  return (point >= 0x9 && point <= 0xd) || point == 0x20 || point == 0x85 || point == 0xa0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 ||
         point == 0x202f || point == 0x205f || point == 0x3000;
}

bool is_trimmed(uint32_t point) { return point == 0x120 || is_whitespace(point); }

bool is_word_character(uint32_t point) {
  const auto behind =
      std::ranges::upper_bound(kWordCharacters, point, std::ranges::less{}, &CodePointRange::first);
  return behind != kWordCharacters.begin() && point <= (behind - 1)->last;
}

struct Run {
  size_t bytes = 0;
  size_t characters = 0;
};

template <class Is>
Run run_at_begin(const uint8_t* text, size_t size, Is&& is) {
  Run run;
  for (;;) {
    const Character next = first_character(text + run.bytes, size - run.bytes);
    if (next.size == 0 || !is(next.point)) return run;
    run.bytes += next.size;
    ++run.characters;
  }
}

template <class Is>
Run run_at_end(const uint8_t* text, size_t size, Is&& is) {
  Run run;
  for (;;) {
    const Character next = last_character(text, size - run.bytes);
    if (next.size == 0 || !is(next.point)) return run;
    run.bytes += next.size;
    ++run.characters;
  }
}

}  // namespace

size_t whitespace_at_begin(const uint8_t* text, size_t size) {
  return run_at_begin(text, size, is_whitespace).bytes;
}

size_t whitespace_at_end(const uint8_t* text, size_t size) {
  return run_at_end(text, size, is_whitespace).bytes;
}

bool begins_with_word_character(const uint8_t* text, size_t size) {
  const Character character = first_character(text, size);
  return character.size > 0 && is_word_character(character.point);
}

bool ends_with_word_character(const uint8_t* text, size_t size) {
  const Character character = last_character(text, size);
  return character.size > 0 && is_word_character(character.point);
}

size_t trimmed_at_begin(const uint8_t* text, size_t size) {
  return run_at_begin(text, size, is_trimmed).characters;
}

size_t trimmed_at_end(const uint8_t* text, size_t size) {
  return run_at_end(text, size, is_trimmed).characters;
}

}  // namespace krill::tokenizer
