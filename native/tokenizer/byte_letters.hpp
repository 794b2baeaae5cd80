// The letters that stand for bytes in byte-level vocabularies: 188 printable characters of Latin-1 for
// themselves, then U+0100 and the following for the other 68 bytes in their order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace krill::tokenizer {

// The letter of each byte, a code point.
inline constexpr std::array<uint16_t, 256> kLetterOfByte = [] {
  std::array<uint16_t, 256> letters{};
  uint16_t next = 256;
  for (uint16_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    letters[byte] = printable ? byte : next++;
  }
  return letters;
}();

// By code point; -1 where a letter stands for no byte.
inline constexpr std::array<int16_t, 324> kByteOfLetter = [] {
  std::array<int16_t, 324> bytes{};
  bytes.fill(-1);
  for (int16_t byte = 0; byte < 256; ++byte) bytes[kLetterOfByte[static_cast<size_t>(byte)]] = byte;
  return bytes;
}();

// Whether a byte is its own letter, of one byte in UTF-8.
inline constexpr bool is_own_letter(uint8_t byte) { return byte > 0x20 && byte < 0x7f; }

// Writes the letter of a byte in UTF-8, one or two bytes, and returns its end.
inline uint8_t* write_letter(uint8_t* out, uint8_t byte) {
  const unsigned letter = kLetterOfByte[byte];
  if (letter >= 0x80) *out++ = static_cast<uint8_t>(0xc0 | letter >> 6);
  *out++ = static_cast<uint8_t>(letter < 0x80 ? letter : 0x80 | (letter & 0x3f));
  return out;
}

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
