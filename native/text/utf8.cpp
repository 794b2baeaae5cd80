#include "text/utf8.hpp"

#include <bit>
#include <cstring>

namespace krill {
namespace {

using std::size_t;
using std::uint64_t;
using std::uint8_t;

constexpr uint64_t kHighBits = 0x8080808080808080u;

bool is_continuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

// Length of the well-formed sequence at the front of text, or 0 if there is none.
size_t sequence_length(const uint8_t* text, size_t size) {
  const uint8_t lead = text[0];
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) return size >= 2 && is_continuation(text[1]) ? 2 : 0;
  if (lead < 0xf0) {
    if (size < 3 || !is_continuation(text[1]) || !is_continuation(text[2])) return 0;
    if (lead == 0xe0 && text[1] < 0xa0) return 0;  // overlong
    if (lead == 0xed && text[1] > 0x9f) return 0;  // surrogates
    return 3;
  }
  if (lead > 0xf4 || size < 4) return 0;
  if (!is_continuation(text[1]) || !is_continuation(text[2]) || !is_continuation(text[3])) return 0;
  if (lead == 0xf0 && text[1] < 0x90) return 0;  // overlong
  if (lead == 0xf4 && text[1] > 0x8f) return 0;  // above U+10FFFF
  return 4;
}

size_t ascii_prefix(const uint8_t* text, size_t size) {
  size_t at = 0;
  for (; at + 32 <= size; at += 32) {
    uint64_t words[4];
    std::memcpy(words, text + at, 32);
    if ((words[0] | words[1] | words[2] | words[3]) & kHighBits) break;
  }
  while (at < size && text[at] < 0x80) ++at;
  return at;
}

// The length of the whitespace character at the front, or 0. The set is str.isspace's.
size_t whitespace_length(const uint8_t* text, size_t size) {
  const uint8_t lead = text[0];
  if (lead < 0x80) return lead == ' ' || (lead >= 0x09 && lead <= 0x0d) || (lead >= 0x1c && lead <= 0x1f);
  if (lead == 0xc2) return size >= 2 && (text[1] == 0x85 || text[1] == 0xa0) ? 2 : 0;  // U+0085, U+00A0
  if (size < 3) return 0;
  const uint8_t second = text[1];
  const uint8_t third = text[2];
  switch (lead) {
    case 0xe1:  // U+1680
      return second == 0x9a && third == 0x80 ? 3 : 0;
    case 0xe2:  // U+2000-200A, U+2028, U+2029, U+202F; U+205F
      if (second == 0x80)
        return (third >= 0x80 && third <= 0x8a) || third == 0xa8 || third == 0xa9 || third == 0xaf ? 3 : 0;
      return second == 0x81 && third == 0x9f ? 3 : 0;
    case 0xe3:  // U+3000
      return second == 0x80 && third == 0x80 ? 3 : 0;
    default:
      return 0;
  }
}

}  // namespace

Utf8Extent utf8_prefix(const uint8_t* text, size_t size) {
  size_t at = 0;
  size_t chars = 0;
  while (at < size) {
    const size_t ascii = ascii_prefix(text + at, size - at);
    at += ascii;
    chars += ascii;
    while (at < size && text[at] >= 0x80) {
      const size_t length = sequence_length(text + at, size - at);
      if (length == 0) return {at, chars};
      at += length;
      ++chars;
    }
  }
  return {at, chars};
}

Utf8Extent utf8_repair(const uint8_t* text, size_t size, uint8_t* out) {
  Utf8Extent kept{0, 0};
  size_t at = 0;
  while (at < size) {
    const Utf8Extent valid = utf8_prefix(text + at, size - at);
    std::memcpy(out + kept.bytes, text + at, valid.bytes);
    kept.bytes += valid.bytes;
    kept.chars += valid.chars;
    // CPython skips the whole broken sequence; all of it after its first byte are continuation bytes,
    // which are dropped one by one here.
    at += valid.bytes + 1;
  }
  return kept;
}

Utf8Extent leading_whitespace(const uint8_t* text, size_t size) {
  Utf8Extent found{0, 0};
  while (found.bytes < size) {
    const size_t length = whitespace_length(text + found.bytes, size - found.bytes);
    if (length == 0) break;
    found.bytes += length;
    ++found.chars;
  }
  return found;
}

Utf8Extent trailing_whitespace(const uint8_t* text, size_t size) {
  Utf8Extent found{0, 0};
  size_t end = size;
  while (end > 0) {
    size_t length = 1;
    while (length < 3 && length < end && is_continuation(text[end - length])) ++length;
    if (whitespace_length(text + end - length, length) != length) break;
    end -= length;
    ++found.chars;
  }
  found.bytes = size - end;
  return found;
}

}  // namespace krill
