// Into how many words a text is cut at most by the usual pre-tokenizers: what Hugging Face's library holds of
// a text depends on it more than on its bytes. Runs of letters are one, with a space before them, but for
// letters of three bytes (Chinese, Thai), which stand alone in some; every other character is one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "text/char_class.hpp"

namespace krill {

inline std::uint64_t cut_count(const std::uint8_t* text, std::size_t size) {
  std::uint64_t count = 0;
  bool goes_on = false;  // a letter here would belong to what is before it
  for (std::size_t at = 0; at < size;) {
    const Character character = character_at(text + at, size - at);
    const bool letter = is_letter(character.kind) && character.length < 3;
    count += letter && goes_on ? 0 : 1;
    goes_on = letter || text[at] == ' ';
    at += character.length;
  }
  return count;
}

}  // namespace krill
