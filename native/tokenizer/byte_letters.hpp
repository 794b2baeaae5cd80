// The letters that stand for bytes in byte-level vocabularies: 188 printable characters of Latin-1 for
// themselves, then U+0100 and the following for the other 68 bytes in their order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace krill::tokenizer {

// By code point; -1 where a letter stands for no byte.
inline constexpr std::array<int16_t, 324> kByteOfLetter = [] {
  std::array<int16_t, 324> bytes{};
  bytes.fill(-1);
  size_t next = 256;
  for (int16_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    bytes[printable ? static_cast<size_t>(byte) : next++] = byte;
  }
  return bytes;
}();

// Turns letters, in UTF-8, into the bytes that they stand for; returns how many, or -1 if one of them stands
// for none. `bytes` has room for as many as the text has.
inline ptrdiff_t letters_to_bytes(std::span<const uint8_t> text, uint8_t* bytes) {
  uint8_t* out = bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned letter = text[i];
    if (letter >= 0xc0 && letter < 0xe0 && i + 1 < text.size())
      letter = (letter & 0x1f) << 6 | (text[++i] & 0x3f);
    else if (letter >= 0x80)
      return -1;
    if (letter >= kByteOfLetter.size() || kByteOfLetter[letter] < 0) return -1;
    *out++ = static_cast<uint8_t>(kByteOfLetter[letter]);
  }
  return out - bytes;
}

}  // namespace krill::tokenizer
