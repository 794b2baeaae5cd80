// An upper bound of the words that common pre-tokenizers cut a text into: the memory that Hugging Face's
// library needs for a text depends on it more than on its bytes. A run of letters with the space before it is
// one word, but letters of three bytes (Chinese, Thai) are words of their own in some; so is every other
// character.
#pragma once

#include <cstddef>
#include <cstdint>

#include "text/char_class.hpp"

namespace krill::text {

inline uint64_t cut_count(const uint8_t* text, size_t size) {
  uint64_t count = 0;
  bool continues = false;  // a letter here would belong to the word before it
  for (size_t at = 0; at < size;) {
    const Character character = character_at(text + at, size - at);
    const bool letter = is_letter(character.kind) && character.length < 3;
    count += letter && continues ? 0 : 1;
    continues = letter || text[at] == ' ';
    at += character.length;
  }
  return count;
}

}  // namespace krill::text
