// Characters at either end of a text: whether a special token beside them takes them as whitespace, or finds
// itself inside of a word.
//
// By Unicode's White_Space and by what `\w` matches in Hugging Face's library. Bytes that are not UTF-8 are
// neither.
#pragma once

#include <cstddef>
#include <cstdint>

namespace krill::tokenizer {

// Bytes of the first character of a text, which may be empty.
inline size_t first_length(const uint8_t* text, size_t size) {
  size_t length = size == 0 ? 0 : 1;
  while (length < size && length < 4 && (text[length] & 0xc0) == 0x80) ++length;
  return length;
}

// Bytes of the whitespace that a text begins with, and of that with which it ends.
size_t whitespace_at_begin(const uint8_t* text, size_t size);
size_t whitespace_at_end(const uint8_t* text, size_t size);

bool begins_with_word_character(const uint8_t* text, size_t size);
bool ends_with_word_character(const uint8_t* text, size_t size);

// How many characters Hugging Face's byte-level post-processor trims off a token's offsets at its begin and
// at its end: whitespace, and the letter that represents a space in tokens.
size_t trimmed_at_begin(const uint8_t* text, size_t size);
size_t trimmed_at_end(const uint8_t* text, size_t size);

}  // namespace krill::tokenizer
